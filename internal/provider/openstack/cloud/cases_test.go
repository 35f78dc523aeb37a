package cloud

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
)

// asked is the request of a login: "URL methods: who → scope".
func asked(l Login) string {
	o := l.Options
	scope, err := o.ToTokenV3ScopeMap()
	if err != nil {
		return "gophercloud refuses the scope: " + err.Error()
	}
	if o.TokenID != "" && scope == nil {
		return o.IdentityEndpoint + " passes the token through"
	}
	body, err := o.ToTokenV3CreateMap(scope)
	if err != nil {
		return "gophercloud refuses it: " + err.Error()
	}
	identity := body["auth"].(map[string]any)["identity"].(map[string]any)
	var methods []string
	for _, m := range identity["methods"].([]any) {
		methods = append(methods, m.(string))
	}
	who, to := identity[methods[0]], "nothing"
	if scope != nil {
		to = compact(scope)
	}
	return fmt.Sprintf("%s %s %s to %s", o.IdentityEndpoint, strings.Join(methods, "+"), compact(who), to)
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`"`, "", " ", "").Replace(string(data))
}

// sourceOf reads files of a directory as if they were in the working directory, and these variables.
func sourceOf(files map[string]string, env map[string]string) settings.Source {
	return settings.Source{
		Getenv: func(k string) string { return env[k] },
		Home:   func() (string, error) { return "/home/anna", nil },
		ReadFile: func(p string) ([]byte, error) {
			if text, ok := files[p]; ok {
				return []byte(text), nil
			}
			return nil, &os.PathError{Op: "open", Path: p, Err: os.ErrNotExist}
		},
	}
}

// caseFiles reads a case of testdata.
func caseFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	all, err := os.ReadDir(filepath.Join("testdata", "login", name))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range all {
		data, err := os.ReadFile(filepath.Join("testdata", "login", name, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(data)
	}
	return out
}

const (
	v3    = "http://127.0.0.1:5000/v3 "
	anna  = v3 + "password {user:{domain:{name:Default},name:u,password:p}} to "
	demo  = "{project:{domain:{name:Default},name:demo}}"
	demoD = "{project:{domain:{id:default},name:demo}}"
)

// TestReportedLogins: people's own settings lead to the request that the openstack command makes of them, or to a refusal that names the
// field, the file and its line, before anything is sent.
func TestReportedLogins(t *testing.T) {
	for name, want := range map[string]string{
		"c10-defaultdomain": v3 + "password {user:{domain:{id:default},name:u,password:p}} to " + demoD,
		"c11-numeric":       v3 + "password {user:{domain:{name:Default},name:1001,password:00123}} to {project:{id:12345678901234567890123456789012}}",
		"c12-v2":            anna + demo,
		"c12b-nover":        anna + demo,
		"c12c-noscheme":     "! clouds.yaml:3: clouds.mine.auth.auth_url: the address has no scheme (write it like https://",
		"c12d-tokens":       anna + demo,
		"c13-system":        "! clouds.yaml:3: clouds.mine.auth.system_scope: this scope is not a project, but servers belong to projects",
		"c14-anchors":       anna + demo,
		"c15-secure":        anna + demo,
		"c16-public":        anna + demo,
		"c17-public2":       "! clouds.yaml:1: clouds.mine.profile: profile acme is not in clouds-public.yaml",
		"c18-secureonly":    anna + demo,
		"c19-emptysecure":   anna + demo,
		"c2-profile":        anna + demo,
		"c21-top":           `! clouds.yaml: cloud "mine" not found; the file has no clouds below the key clouds`,
		"c22-noprojdom":     anna + demoD,
		"c24-bothproj":      v3 + "password {user:{domain:{id:default},name:u,password:p}} to " + demoD,
		"c25-mixed":         v3 + "password {user:{domain:{id:abc},name:u,password:p}} to " + demo,
		"c26-horizon":       anna + "{project:{id:p1}}",
		"c3-noauth":         `! cloud "mine" of clouds.yaml has no auth section (write auth:`,
		"c3b-null":          `! cloud "mine" of clouds.yaml has no auth section`,
		"c4b-regionsplain":  anna + demo,
		"c6-appproj":        v3 + "application_credential {id:abc,secret:s} to nothing",
		"c6b-appname":       v3 + "application_credential {name:n,secret:s,user:{domain:{name:Default},name:u}} to nothing",
		"c7-yml":            anna + demo,
		"c9-oidc":           "! clouds.yaml:3: clouds.mine.auth_type: auth_type v3oidcpassword is not supported; nothing was sent (log in with the openstack command, make an application credential",
		"d1-nopass":         `! read the credentials of cloud "mine" of clouds.yaml: auth.password is not set (add it to secure.yaml`,
		"d1b-nopass-none":   "! auth.password is not set",
		"d1c-nopass-prompt": "! auth.password is not set",
		"d3-verifystr":      anna + demo,
		"d3b-insecure":      anna + demo,
		"d3c-idver":         anna + demo,
		"d4-trust":          anna + "{OS-TRUST:trust:{id:t1}}",
		"d5-domscope":       "! clouds.yaml:1: clouds.mine.auth.domain_name: this scope is not a project",
		"d6-template":       strings.ReplaceAll(anna, "password:p", "password:${OS_PASSWORD}") + demo,
		"k11-doctor":        "! has no auth section",
		"k2-oscloud":        strings.ReplaceAll(anna, "name:u", "name:fromfile") + demo,
		"k4-pw":             v3 + "password {user:{domain:{name:yes},name:u,password:1e5}} to {project:{domain:{name:Default},name:2024-01-01}}",
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"OS_CLOUD": "mine", "OS_USERNAME": "fromenv", "OS_PASSWORD": "fromenv", "OS_PROJECT_NAME": "fromenv"} // must not mix
			l, err := LoginFrom(sourceOf(caseFiles(t, name), env), "", "")
			checkLogin(t, l, err, want)
		})
	}
	all, err := os.ReadDir("testdata/login")
	if err != nil || len(all) != 38 {
		t.Errorf("there are %d cases: %v", len(all), err)
	}
}

// checkLogin compares a login, or a refusal if want begins with !.
func checkLogin(t *testing.T, l Login, err error, want string) {
	t.Helper()
	refusal, refused := strings.CutPrefix(want, "! ")
	switch {
	case refused && err == nil:
		t.Errorf("it is accepted: %s", asked(l))
	case refused && (fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), refusal)):
		t.Errorf("%v error: %v\nwant: %s", fail.KindOf(err), err, refusal)
	case !refused && err != nil:
		t.Error(err)
	case !refused && asked(l) != want:
		t.Errorf("asked: %s\nwant:  %s", asked(l), want)
	}
}

// TestReportedTLS: certificates go unchecked where the settings say so, however they say it.
func TestReportedTLS(t *testing.T) {
	for _, name := range []string{"d3-verifystr", "d3b-insecure"} {
		l, err := LoginFrom(sourceOf(caseFiles(t, name), nil), "mine", "")
		if err != nil || l.TLS == nil || !l.TLS.InsecureSkipVerify {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l, err := LoginFrom(sourceOf(caseFiles(t, "c4b-regionsplain"), nil), "mine", ""); err != nil || l.Where.Region != "RegionOne" {
		t.Errorf("the first region is taken where none is named: %q, %v", l.Where.Region, err)
	}
	l, err := LoginFrom(sourceOf(caseFiles(t, "d6-template"), nil), "mine", "")
	if err != nil || len(l.Settings.Notes) != 1 || !strings.Contains(l.Settings.Notes[0], "auth.password looks like the name of a variable") {
		t.Errorf("%v %v", l.Settings.Notes, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", l.Settings, l.Settings, l.Settings, l.Settings); strings.Contains(text, "OS_PASSWORD") {
		t.Error("printing the settings shows the password")
	}
}
