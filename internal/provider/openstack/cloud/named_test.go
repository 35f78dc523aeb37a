package cloud

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReadNamed: a clouds.yaml of a credential is all that counts, and its identity service has to be one that the credential is for.
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
	testkit.Fails(t, err, fail.Invalid, `cloud "b" of credential prod can't be read`)
	n.Allowed = func(string) error { return fail.New(fail.Refused, "credential prod is not for it") }
	_, err = ReadNamed(n, "a", "")
	testkit.Fails(t, err, fail.Refused, "credential prod is not for it")
	for text, want := range map[string]string{"": "holds no clouds.yaml", "clouds: [": "holds no clouds.yaml", "clouds: {a: {auth: {}}}": "can't be read", "clouds: {a: {}, b: {}}": "holds 2 clouds"} {
		n.YAML = []byte(text)
		_, err := ReadNamed(n, "", "")
		testkit.Fails(t, err, fail.Invalid, want)
	}
}
