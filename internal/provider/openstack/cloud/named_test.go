package cloud

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReadNamed: only the clouds.yaml of a credential counts, and its identity service must be one for which the credential is valid.
func TestReadNamed(t *testing.T) {
	t.Setenv("OS_CLOUD", "mine")
	t.Setenv("OS_REGION_NAME", "elsewhere")
	t.Setenv("OS_AUTH_URL", "https://elsewhere.example.org")
	var asked []string
	n := provider.NamedCloud{Name: "prod", YAML: []byte("clouds: {a: {region_name: r1, auth: {auth_url: 'https://keystone:5000/v3', username: u, password: hunter2, project_id: p, user_domain_name: d}}}"),
		Allowed: func(url string) error { asked = append(asked, url); return nil }}
	l := testkit.Value(ReadNamed(n, "", ""))(t)
	if l.Options.IdentityEndpoint != "https://keystone:5000/v3" || l.Options.Username != "u" || l.Where.Region != "r1" || len(asked) != 1 || asked[0] != "https://keystone:5000/v3" {
		t.Errorf("login to %q, region %q, asked about %q", l.Options.IdentityEndpoint, l.Where.Region, asked)
	}
	_, err := ReadNamed(n, "b", "")
	testkit.Fails(t, err, fail.Invalid, `cloud "b" not found`, `read cloud "b" of credential prod`)
	n.Allowed = func(string) error { return fail.New(fail.Refused, "credential prod is not for it") }
	_, err = ReadNamed(n, "a", "")
	testkit.Fails(t, err, fail.Refused, "credential prod is not for it")
	for text, want := range map[string]string{"": "holds no clouds.yaml", "clouds: [": "holds no clouds.yaml", "clouds: {a: {auth: {}}}": "has no auth section",
		"clouds: {a: {auth_type: v3oidcpassword, auth: {auth_url: 'https://k/v3', username: u, password: hunter2}}}":                 "v3oidcpassword",
		"clouds: {a: {auth: {auth_url: 'https://k/v3', username: u, project_id: p, user_domain_name: d}}}":                           "auth.password is not set",
		"clouds: {a: {auth: {auth_url: hunter2hunter2, username: u, password: hunter2hunter2, project_id: p, user_domain_name: d}}}": "has no scheme",
		"clouds: {a: {}, b: {}}": "holds 2 clouds"} {
		n.YAML = []byte(text)
		_, err := ReadNamed(n, "", "")
		testkit.Fails(t, err, fail.Invalid, want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: shows the password: %v", text, err)
		}
	}
	file := []byte("clouds: {a: {auth: {password: hunter2, username: ann}, token: ''}}")
	for text, want := range map[string]bool{"it says hunter2": true, "it says ann": false, "": false} {
		if quotesSecret(file, text) != want {
			t.Errorf("%q: quotes a secret: %t", text, !want)
		}
	}
	if !quotesSecret([]byte("a: ["), "x") {
		t.Error("a file that can't be searched hides nothing")
	}
}
