package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

const whole = `auth_url: "http://127.0.0.1:5000/v3", username: u, password: p, project_name: demo, user_domain_name: Default, project_domain_name: Default`

// login reads a clouds.yaml with one cloud.
func login(cloud string, env ...string) (Login, error) {
	vars := map[string]string{"OS_CLOUD": "mine"}
	for i := 0; i+1 < len(env); i += 2 {
		vars[env[i]] = env[i+1]
	}
	return LoginFrom(sourceOf(map[string]string{"clouds.yaml": "clouds: {mine: " + cloud + "}"}, vars), "", "")
}

// TestAuthURLs: each way to write the identity service's address is version 3's, or is refused.
func TestAuthURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://k:5000": "https://k:5000/v3", "https://k:5000/": "https://k:5000/v3", "https://k/identity": "https://k/identity/v3",
		"https://k/identity/v3": "https://k/identity/v3", "https://k/v3/": "https://k/v3", "https://k/v3//": "https://k/v3", "https://k/v2.0/": "https://k/v3",
		"https://k/v2": "https://k/v3", "https://k/v3/v3/": "https://k/v3", "https://k/identity/v3//v3": "https://k/identity/v3", "https://k/v4/v3": "! version 4", "https://k/v3.14": "https://k/v3", "https://k/identity/v3/auth/tokens/": "https://k/identity/v3", " https://k/v3 ": "https://k/v3",
		"HTTPS://k/v3": "https://k/v3", "https://[2001:db8::1]:5000/v3": "https://[2001:db8::1]:5000/v3", "https://k.{region_name}.example/v3": "https://k.r1.example/v3",
		"k/v3": "! no scheme", "k:5000": "! no scheme", "//k/v3": "! no scheme", "ftp://k/v3": "! not an HTTP URL", "https:///v3": "! not an HTTP URL",
		"https://k/v4": "! version 4", "https://u:s3cret@k/v3": "! more than scheme, host, port and path", "https://k/v3?x=1": "! more than", "https://k/%zz": "! can't be read",
		"https://{site}.example/v3": "! placeholder {site}", "": "! auth.auth_url is not set",
	} {
		l, err := login(fmt.Sprintf(`{region_name: r1, auth: {auth_url: %q, username: u, password: p}}`, url))
		if refusal, refused := strings.CutPrefix(want, "! "); refused {
			if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), refusal) || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "auth_url") {
				t.Errorf("%s: %v", url, err)
			}
		} else if err != nil || l.Options.IdentityEndpoint != want {
			t.Errorf("%s: %s, %v", url, l.Options.IdentityEndpoint, err)
		}
	}
}

// TestAuthTypes: each type that keystoneauth knows is used with its own fields, or refused by its name.
func TestAuthTypes(t *testing.T) {
	const all = `auth_url: "http://k", username: u, password: word, passcode: "123456", token: tok, application_credential_id: a, application_credential_secret: s, project_id: p`
	const password = "http://k/v3 password {user:{domain:{id:default},name:u,password:word}} to {project:{id:p}}"
	for kind, want := range map[string]string{
		"v3token": "http://k/v3 token {id:tok} to {project:{id:p}}", "token": "http://k/v3 token {id:tok} to {project:{id:p}}",
		"v3applicationcredential": "http://k/v3 application_credential {id:a,secret:s} to nothing",
		"v3totp":                  "http://k/v3 totp {user:{domain:{id:default},name:u,passcode:123456}} to {project:{id:p}}",
		"password":                strings.ReplaceAll(password, "v3 password", "v3 password+totp"),
		"V3Password":              strings.ReplaceAll(password, "v3 password", "v3 password+totp"),
		"":                        "http://k/v3 application_credential {id:a,secret:s} to nothing",
		"v2password":              "! removed in 2018", "v2token": "! removed in 2018", "v3multifactor": "! auth_methods is not set",
	} {
		l, err := login(fmt.Sprintf("{auth_type: %q, auth: {%s}}", kind, all))
		checkLogin(t, l, err, want)
	}
	for _, kind := range strings.Fields(`v3oidcpassword v3oidcclientcredentials v3oidcauthcode v3oidcaccesstoken v3oidcdeviceauthz v3oauth1 v3kerberos
		v3samlpassword v3adfspassword v3tokenlessauth v3oauth2clientcredential v3oauth2mtlsclientcredential v3websso v3fedkerb admin_token token_endpoint none
		http_basic noauth gnocchi-basic aodh-noauth whatever`) {
		for _, how := range []string{"auth_type", "auth_plugin", "auth-type"} {
			_, err := login(fmt.Sprintf("{%s: %s, auth: {%s}}", how, kind, all))
			checkLogin(t, Login{}, err, "! "+kind+" is not supported; nothing was sent")
		}
		_, err := LoginFrom(sourceOf(nil, map[string]string{"OS_AUTH_URL": "http://k", "OS_AUTH_TYPE": kind, "OS_USERNAME": "u", "OS_PASSWORD": "p"}), "", "")
		checkLogin(t, Login{}, err, "! $OS_AUTH_TYPE: auth_type "+kind+" is not supported")
	}
	for methods, want := range map[string]string{
		"v3password,v3totp": strings.ReplaceAll(password, "v3 password", "v3 password+totp"), "v3totp": "http://k/v3 totp {user:{domain:{id:default},name:u,passcode:123456}} to {project:{id:p}}",
		"v3password,v3oidc": "! the authentication method v3oidc is not supported",
	} {
		l, err := login(fmt.Sprintf("{auth_type: v3multifactor, auth_methods: %q, auth: {%s}}", methods, all))
		checkLogin(t, l, err, want)
		l, err = login(fmt.Sprintf("{auth_type: v3multifactor, auth_methods: [%s], auth: {%s}}", methods, all)) // as in openstacksdk's documentation
		checkLogin(t, l, err, want)
	}
	for methods, want := range map[string]string{"[]": "! auth_methods is not set", "[[v3totp]]": "! this must be a single value", "{v3totp: 1}": "! clouds.mine.auth_methods: this must be a single value"} {
		_, err := login(fmt.Sprintf("{auth_type: v3multifactor, auth_methods: %s, auth: {%s}}", methods, all))
		checkLogin(t, Login{}, err, want)
	}
}

// TestUsersAndScopes: IDs have precedence over names, one domain serves both, a missing domain is the default one, and contradictions are refused.
func TestUsersAndScopes(t *testing.T) {
	const url = `auth_url: "http://k", `
	for auth, want := range map[string]string{
		`username: u, password: p`: "password {user:{domain:{id:default},name:u,password:p}} to nothing",
		`user_id: i, username: u, password: p, project_id: x, project_name: y`: "password {user:{id:i,password:p}} to {project:{id:x}}",
		`userid: i, password: p, tenant_id: x`:                                 "password {user:{id:i,password:p}} to {project:{id:x}}",
		`username: u, password: p, tenant_name: y, domain_id: d`:               "password {user:{domain:{id:d},name:u,password:p}} to {project:{domain:{id:d},name:y}}",
		`username: u, password: p, project_name: y, domain_name: D`:            "password {user:{domain:{name:D},name:u,password:p}} to {project:{domain:{name:D},name:y}}",
		`username: u, password: p, project-name: y, user-domain-name: D`:       "password {user:{domain:{name:D},name:u,password:p}} to {project:{domain:{id:default},name:y}}",
		`username: u, password: p, project_name: y, default_domain: dd`:        "password {user:{domain:{id:dd},name:u,password:p}} to {project:{domain:{id:dd},name:y}}",
		`username: u, password: p, project_name: y, default_domain_id: dd`:     "password {user:{domain:{id:dd},name:u,password:p}} to {project:{domain:{id:dd},name:y}}",
		`username: u, password: p, project_name: y, default_domain_name: DD`:   "password {user:{domain:{name:DD},name:u,password:p}} to {project:{domain:{name:DD},name:y}}",
		`username: u, password: p, project_name: y, user_domain_id: default, user_domain_name: Default, project_domain_id: default, project_domain_name: Default`: "password {user:{domain:{id:default},name:u,password:p}} to {project:{domain:{id:default},name:y}}",
		`username: u, password: p, trust_id: t, project_id: x`:         "! trust_id: it conflicts with clouds.yaml:1: clouds.mine.auth.project_id",
		`username: u, password: p, system_scope: all, project_name: x`: "! system_scope: it conflicts with",
		`username: u, password: p, trust_id: t, domain_id: x`:          "! domain_id: it conflicts with",
		`username: u, password: p, domain_id: x`:                       "! domain_id: this scope is not a project",
		`password: p, project_id: x`:                                   "! auth.username is not set",
		`username: u, project_id: x`:                                   "! auth.password is not set",
		`username: u, password: , project_id: x`:                       "! auth.password is not set",
		`username: u, password: null, project_id: x`:                   "! auth.password is not set",
		`token: t`:                     "passes the token through",
		`token: t, project_id: x`:      "token {id:t} to {project:{id:x}}",
		`auth_token: t, project_id: x`: "token {id:t} to {project:{id:x}}",
		`token: t, username: u, password: p, project_id: x`:                                                                 "password {user:{domain:{id:default},name:u,password:p}} to {project:{id:x}}",
		`application_credential_id: a`:                                                                                      "! auth.application_credential_secret is not set",
		`application_credential_id: a, application_credential_name: n, application_credential_secret: s`:                    "application_credential {id:a,secret:s} to nothing",
		`application_credential_name: n, application_credential_secret: s`:                                                  "! auth.username is not set",
		`application_credential_name: n, application_credential_secret: s, user_id: i`:                                      "application_credential {name:n,secret:s,user:{id:i}} to nothing",
		`application_credential_name: n, application_credential_secret: s, username: u`:                                     "application_credential {name:n,secret:s,user:{domain:{id:default},name:u}} to nothing",
		`application_credential_name: n, application_credential_secret: s, username: u, project_name: x, system_scope: all`: "application_credential {name:n,secret:s,user:{domain:{id:default},name:u}} to nothing",
		`username: [u], password: p`:                                                                                        "! clouds.mine.auth.username: this must be a single value",
		`username: "u\r", password: p`:                                                                                      "! clouds.mine.auth.username: this must be one line",
		`username: 0x1F, password: 1_000, project_id: 08, trust_id: null`:                                                   "password {user:{domain:{id:default},name:0x1F,password:1_000}} to {project:{id:08}}",
		`username: on, password: "null", project_id: 1.10`:                                                                  "password {user:{domain:{id:default},name:on,password:null}} to {project:{id:1.10}}",
	} {
		l, err := login("{auth: {" + url + auth + "}}")
		if !strings.HasPrefix(want, "! ") {
			want = "http://k/v3 " + want
		}
		t.Run(auth, func(t *testing.T) { checkLogin(t, l, err, want) })
	}
}

// TestLiteralSecrets: a secret that is probably not what its owner meant is used as it is, and noted without being quoted.
func TestLiteralSecrets(t *testing.T) {
	const env = `auth_url: "http://k", `
	for auth, note := range map[string]string{
		env + `username: u, user_domain_id: d, password: "hush "`:                    "auth.password begins or ends with a blank",
		env + `application_credential_id: a, application_credential_secret: " hush"`: "auth.application_credential_secret begins or ends with a blank",
		env + `username: u, user_domain_id: d, password: "${hush}"`:                  "auth.password looks like the name of a variable",
		env + `username: u, user_domain_id: d, password: "hu sh"`:                    "",
	} {
		l, err := login("{auth: {" + auth + "}}")
		notes := strings.Join(l.Settings.Notes, "\n")
		if err != nil || !strings.Contains(notes, note) || note == "" && notes != "" || strings.Contains(notes, "hush") {
			t.Errorf("%s: %q, %v", auth, notes, err)
		}
	}
}

// TestSwitches: booleans as people write them, in files and in variables; interfaces by all their names.
func TestSwitches(t *testing.T) {
	for text, want := range map[string]bool{
		"1": true, "t": true, "True": true, "TRUE": true, "y": true, "Y": true, "yes": true, "on": true, "On": true,
		"0": false, "f": false, "False": false, "n": false, "no": false, "off": false, "": false,
	} {
		l, err := login(fmt.Sprintf("{insecure: %q, auth: {%s}}", text, whole))
		m, err2 := login(fmt.Sprintf("{verify: %s, auth: {%s}}", text, whole))
		env, err3 := LoginFrom(sourceOf(nil, map[string]string{"OS_AUTH_URL": "http://k", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_INSECURE": text}), "", "")
		if err != nil || err2 != nil || err3 != nil || l.Settings.Insecure != want || m.Settings.Insecure != (!want && text != "") || env.Settings.Insecure != want {
			t.Errorf("%q: %v %v %v, %v %v %v", text, l.Settings.Insecure, m.Settings.Insecure, env.Settings.Insecure, err, err2, err3)
		}
	}
	_, err := login("{verify: /etc/ca.pem, auth: {" + whole + "}}")
	checkLogin(t, Login{}, err, `! clouds.yaml:1: clouds.mine.verify: "/etc/ca.pem" is not a boolean (name a file of authorities with cacert)`)
	for text, want := range map[string]string{
		"public": "public", "publicURL": "public", "internal": "internal", "internalURL": "internal", "admin": "admin", "adminURL": "admin", "Internal": "internal", "": "public",
	} {
		for _, key := range []string{"interface", "endpoint_type", "endpoint-type"} {
			if l, err := login(fmt.Sprintf("{%s: %q, auth: {%s}}", key, text, whole)); err != nil || string(l.Where.Availability) != want {
				t.Errorf("%s %s: %s, %v", key, text, l.Where.Availability, err)
			}
		}
	}
	_, err = login("{interface: intern, auth: {" + whole + "}}")
	checkLogin(t, Login{}, err, `! clouds.mine.interface: the interface "intern" is not public, internal or admin`)
	l, err := login("{interface: [internal], auth: {" + whole + "}}")
	if err != nil || l.Where.Availability != "internal" {
		t.Errorf("a list of one: %s, %v", l.Where.Availability, err)
	}
	_, err = login("{interface: [internal, public], auth: {" + whole + "}}")
	checkLogin(t, Login{}, err, `! clouds.mine.interface: several interfaces are named`)
	_, err = login("{network_endpoint_override: http://x, auth: {" + whole + "}}")
	checkLogin(t, Login{}, err, `! clouds.mine.network_endpoint_override: a service's address is overridden here`)
}

// TestRegionsOfFiles: the first one where none is named, with its own values; another one where the document or a variable says so.
func TestRegionsOfFiles(t *testing.T) {
	const values = `{regions: [{name: r1, values: {interface: internal, auth: {project_name: one}}}, r2], auth: {` + whole + "}}"
	for _, c := range []struct{ cloud, env, doc, region, project, fault string }{
		{values, "", "", "r1", "one", ""},
		{values, "r2", "", "r2", "demo", ""},
		{values, "r2", "r1", "r1", "one", ""},
		{values, "", "r3", "", "", "spec.provider.openstack.region: cloud \"mine\" of clouds.yaml has no region r3 (it has r1, r2)"},
		{values, "r3", "", "", "", "$OS_REGION_NAME"},
		{"{region_name: a, auth: {" + whole + "}}", "", "", "a", "demo", ""},
		{"{region_name: a, auth: {" + whole + "}}", "", "b", "b", "demo", ""},
		{"{region_name: 'a, b', auth: {" + whole + "}}", "", "b", "b", "demo", ""},
		{"{region_name: 'a,b', auth: {" + whole + "}}", "", "c", "", "", "has no region c (it has a, b)"},
		{"{region_name: [a, b], auth: {" + whole + "}}", "", "", "a", "demo", ""},
		{"{regions: [], auth: {" + whole + "}}", "", "", "", "demo", ""},
		{"{regions: [{values: {}}], auth: {" + whole + "}}", "", "", "", "", "regions[0]: a region has no name"},
		{"{regions: [{name: a, interface: admin}], auth: {" + whole + "}}", "", "", "", "", "regions[0].interface: a region has only a name and values"},
		{"{regions: r1, auth: {" + whole + "}}", "", "", "", "", "clouds.mine.regions: this must be a list"},
		{`{regions: [{name: r1, values: {auth: {` + whole + `}}}]}`, "", "", "r1", "demo", ""}, // auth in the region alone
	} {
		l, err := LoginFrom(sourceOf(map[string]string{"clouds.yaml": "clouds: {mine: " + c.cloud + "}"}, map[string]string{"OS_REGION_NAME": c.env}), "mine", c.doc)
		switch {
		case c.fault != "":
			checkLogin(t, Login{}, err, "! "+c.fault)
		case err != nil || l.Where.Region != c.region || l.Options.Scope.ProjectName != c.project:
			t.Errorf("%+v: region %q, %+v, %v", c, l.Where.Region, l.Options.Scope, err)
		}
	}
}

// TestFiles: the places of settings, their merging, and the errors for unusable files.
func TestFiles(t *testing.T) {
	const good = "clouds: {mine: {auth: {" + whole + "}}}"
	type files = map[string]string
	for name, c := range map[string]struct {
		files files
		env   map[string]string
		want  string
	}{
		"yaml before yml":       {files{"clouds.yml": "clouds: {}", "clouds.yaml": good}, nil, anna + demo},
		"json":                  {files{"clouds.json": "{\n\t\"clouds\": {\"mine\": {\"auth\": {\"auth_url\": \"http://127.0.0.1:5000\", \"username\": \"u\", \"password\": \"p\", \"user_domain_name\": \"Default\"}}}\n}"}, nil, anna + "nothing"},
		"home":                  {files{"/home/anna/.config/openstack/clouds.yml": good}, nil, anna + demo},
		"XDG_CONFIG_HOME":       {files{"/x/openstack/clouds.yaml": good, "/home/anna/.config/openstack/clouds.yaml": "clouds: {}"}, map[string]string{"XDG_CONFIG_HOME": "/x"}, anna + demo},
		"/etc":                  {files{"/etc/openstack/clouds.yaml": good}, nil, anna + demo},
		"named":                 {files{"/y/mine.yaml": good, "clouds.yaml": "clouds: {}"}, map[string]string{"OS_CLIENT_CONFIG_FILE": "/y/mine.yaml"}, anna + demo},
		"named by ~":            {files{"/home/anna/mine.yaml": good}, map[string]string{"OS_CLIENT_CONFIG_FILE": "~/mine.yaml"}, anna + demo},
		"named, not there":      {files{"clouds.yaml": good}, map[string]string{"OS_CLIENT_CONFIG_FILE": "/y/mine.yaml"}, anna + demo},
		"secure file named":     {files{"clouds.yaml": strings.ReplaceAll(good, "password: p, ", ""), "/y/s.yaml": "clouds: {mine: {auth: {password: p}}}"}, map[string]string{"OS_CLIENT_SECURE_FILE": "/y/s.yaml"}, anna + demo},
		"secure beside a named": {files{"/y/c.yaml": strings.ReplaceAll(good, "password: p, ", ""), "/y/secure.yml": "clouds: {mine: {auth: {password: p}}}"}, map[string]string{"OS_CLIENT_CONFIG_FILE": "/y/c.yaml"}, anna + demo},
		"secure in another dir": {files{"/etc/openstack/clouds.yaml": strings.ReplaceAll(good, "password: p, ", ""), "/home/anna/.config/openstack/secure.yaml": "clouds: {mine: {auth: {password: p}}}"}, nil, anna + demo},
		"secure alone":          {files{"secure.yaml": good}, nil, anna + demo},
		"secure of others":      {files{"clouds.yaml": good, "secure.yaml": "clouds: {other: {auth: {password: x}}}"}, nil, anna + demo},
		"secure is null":        {files{"clouds.yaml": good, "secure.yaml": "clouds:\n"}, nil, anna + demo},
		"secure is a list":      {files{"clouds.yaml": good, "secure.yaml": "- a"}, nil, "! secure.yaml: it must be a mapping"},
		"settings beside auth":  {files{"clouds.yaml": "clouds: {mine: {" + whole + "}}"}, nil, anna + demo},
		"profile by cloud":      {files{"clouds.yaml": "clouds: {mine: {cloud: acme, auth: {username: u, password: p, user_domain_name: Default}}}", "clouds-public.yaml": "public-clouds: {acme: {region_name: q, auth: {auth_url: 'http://127.0.0.1:5000', username: nobody}}}"}, nil, anna + "nothing"},
		"merge list":            {files{"clouds.yaml": "a: &a {username: x, password: p}\nb: &b {username: u, user_domain_name: Default}\nclouds: {mine: {auth: {<<: [*b, *a], auth_url: 'http://127.0.0.1:5000'}}}"}, nil, anna + "nothing"},
		"alias of a cloud":      {files{"clouds.yaml": "clouds: {first: &f {auth: {" + whole + "}}, mine: *f}"}, nil, anna + demo},
		"a number as name":      {files{"clouds.yaml": strings.Replace(good, "mine:", "1:", 1)}, nil, `! cloud "mine" not found; available: 1`},
		"no file":               {files{}, nil, `! cloud "mine" not found: no clouds.yaml in ., /home/anna/.config/openstack`},
		"empty file":            {files{"clouds.yaml": ""}, nil, `! clouds.yaml: cloud "mine" not found; the file has no clouds`},
		"tab":                   {files{"clouds.yaml": "clouds:\n\tmine: {}"}, nil, "! clouds.yaml:2: it is not valid YAML"},
		"two documents":         {files{"clouds.yaml": good + "\n---\n" + good}, nil, "! clouds.yaml: the file has several YAML documents"},
		"binary":                {files{"clouds.yaml": "\x00\x01\xff\xfe"}, nil, "! clouds.yaml"},
		"clouds is a list":      {files{"clouds.yaml": "clouds: [mine]"}, nil, "! clouds.yaml:1: clouds: this must be a mapping"},
		"cloud is a text":       {files{"clouds.yaml": "clouds: {mine: yes}"}, nil, "! clouds.yaml:1: clouds.mine: this must be a mapping"},
		"auth is a list":        {files{"clouds.yaml": "clouds: {mine: {auth: [{auth_url: x}]}}"}, nil, "! clouds.yaml:1: clouds.mine.auth: this must be a mapping"},
		"auth is null":          {files{"clouds.yaml": "clouds: {mine: {auth: }}"}, nil, "! has no auth section"},
		"auth beside the cloud": {files{"clouds.yaml": "clouds:\n  mine:\n  auth:\n    auth_url: x\n"}, nil, "! has no auth section"},
		"alias of itself":       {files{"clouds.yaml": "clouds: &c {mine: {auth: {<<: *c}}}"}, nil, "! "},
		"merge of a text":       {files{"clouds.yaml": "clouds: {mine: {auth: {<<: x}}}"}, nil, "! clouds.yaml:1"},
		"unknown anchor":        {files{"clouds.yaml": "clouds: {mine: *x}"}, nil, "! it is not valid YAML: a value that begins with * needs quotes"},
		"many merges":           {files{"clouds.yaml": bomb()}, nil, "! too many keys"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := LoginFrom(sourceOf(c.files, c.env), "mine", "")
			checkLogin(t, l, err, c.want)
		})
	}
}

// bomb is a file whose merge keys multiply.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String() + "clouds: {mine: {auth: {<<: *a11}}}\n"
}

// FuzzLogin: no file ends the program, and every refusal is of the input.
func FuzzLogin(f *testing.F) {
	for _, seed := range []string{"clouds: {mine: {auth: {" + whole + "}}}", "clouds: {mine: }", "clouds: &a {mine: *a}", "{", "clouds:\n  ? [a]\n  : b", "clouds: {mine: {regions: [{name: a, values: {auth: {}}}]}}"} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, clouds, secure string) {
		_, err := LoginFrom(sourceOf(map[string]string{"clouds.yaml": clouds, "secure.yaml": secure}, nil), "mine", "")
		if err != nil && fail.KindOf(err) != fail.Invalid {
			t.Errorf("%v", err)
		}
	})
}
