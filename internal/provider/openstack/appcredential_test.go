package openstack

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

var testCredential = provider.CloudCredential{
	ID: "0123", Name: "t4-0000abcd.cloud.00000001", Secret: `s"e\cret`, AuthURL: "https://keystone.example.org:5000/v3", Region: "RegionOne", Interface: "internal",
	ProjectID: "p1", UserID: "u1", Roles: []string{"member"}, CACert: "-----BEGIN CERTIFICATE-----\n",
}

func TestCredentialHidesItsSecret(t *testing.T) {
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, x := range []any{testCredential, &testCredential, struct{ C provider.CloudCredential }{testCredential}} {
			if s := fmt.Sprintf(format, x); strings.Contains(s, "cret") {
				t.Errorf("%s of %T shows the secret: %s", format, x, s)
			}
		}
	}
}

func TestCloudsYAML(t *testing.T) {
	data, err := testCredential.CloudsYAML("harbour", "ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Clouds map[string]struct {
			AuthType string            `yaml:"auth_type"`
			Auth     map[string]string `yaml:"auth"`
			CACert   string            `yaml:"cacert"`
			Face     string            `yaml:"interface"`
		} `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	c := back.Clouds["harbour"]
	if c.AuthType != "v3applicationcredential" || c.Auth["application_credential_secret"] != testCredential.Secret || c.CACert != "ca.crt" || c.Face != "internal" {
		t.Errorf("clouds.yaml is\n%s", data)
	}
}

func TestDelegatedRoles(t *testing.T) {
	for _, x := range []struct{ roles, want string }{
		{"member reader load-balancer_member", "member load-balancer_member"},
		{"admin manager member reader", "member"},
		{"_member_", "_member_"},
		{"Member", "Member"},
		{"admin reader", "reader"}, // better than to hand administration on
		{"project_user load-balancer_admin", "project_user"},
		{"admin", ""},
	} {
		var w cloud.User
		for _, r := range strings.Fields(x.roles) {
			w.Roles = append(w.Roles, cloud.Role{ID: r, Name: r})
		}
		var got []string
		for _, r := range w.Delegated() {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("of %q %q are handed on, want %q", x.roles, got, x.want)
		}
		if err := w.MayDelegate("clouds.yaml"); (err == nil) != (x.want != "") {
			t.Errorf("with %q: %v", x.roles, err)
		}
	}
}

func TestRestrictedCredentialMakesNoOthers(t *testing.T) {
	var w cloud.User
	w.Roles = []cloud.Role{{ID: "m", Name: "member"}}
	w.AppCredential = &cloud.AppCredential{Name: "ci", Restricted: true}
	err := w.MayDelegate("cloud x of clouds.yaml")
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--unrestricted") || !strings.Contains(err.Error(), "clouds.yaml") {
		t.Errorf("%v", err)
	}
}
