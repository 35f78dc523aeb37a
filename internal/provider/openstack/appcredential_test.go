package openstack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
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

// TestBoundedCredential: a cluster's own credential has access rules; the one for people has none and expires. Each is deleted when it should be, and
// the last one's deletion deletes the rules, which two clusters of a user share.
func TestBoundedCredential(t *testing.T) {
	useFake(t)
	f := &fakeKeystone{fakeCloud: newFakeCloud()}
	f.add("credentials", thing{"name": "mine", "description": "a user's own", "access_rules": []thing{f.add("rules", thing{"service": "image", "method": "GET", "path": "/v2/images"})}})
	p, q := f.provider(t, "t3-one-00000001"), f.provider(t, "t3-two-00000002")
	ctx := t.Context()
	first, err := p.NewCloudCredential(ctx, "")
	testkit.Must(t, err)
	rules := len(f.kinds["rules"])
	if !first.Bounded || first.Reach != "" || rules < 30 {
		t.Errorf("%s: bounded %t by %d rules, for %q", first, first.Bounded, rules, first.Reach)
	}
	until := time.Now().Add(time.Hour).In(time.FixedZone("far away", 9*3600))
	people, err := p.PeopleCredential(ctx, until)
	testkit.Must(t, err)
	made := f.get("credentials", people.ID)
	if want := until.UTC().Format("2006-01-02T15:04"); made["access_rules"] != nil || !strings.HasPrefix(made.str("expires_at"), want) || people.Bounded || people.ID == first.ID {
		t.Errorf("for people there is %v, until %s", made, want)
	}
	if _, err := q.NewCloudCredential(ctx, ""); err != nil {
		t.Fatal(err)
	}
	second, err := p.NewCloudCredential(ctx, "")
	testkit.Must(t, err)
	if n, err := p.PruneCloudCredentials(ctx, second.ID); n != 1 || err != nil || f.names() != "mine t3-one-00000001.people t3-two-00000002.cloud t3-one-00000001.cloud" {
		t.Errorf("%d pruned, there are %s: %v", n, f.names(), err)
	}
	made["expires_at"] = "2020-01-01T00:00:00.000000"
	if _, err = p.PeopleCredential(ctx, until); err != nil || f.get("credentials", people.ID) != nil {
		t.Errorf("an expired credential still exists: %v", err)
	}
	if n, err := p.PruneCloudCredentials(ctx); n != 2 || err != nil || f.names() != "mine t3-two-00000002.cloud" {
		t.Errorf("%d were deleted with the cluster, there are %s: %v", n, f.names(), err)
	}
	if got := len(f.kinds["rules"]); got != rules {
		t.Errorf("%d rules of %d are left to the other cluster", got, rules)
	}
	if n, err := q.PruneCloudCredentials(ctx); n != 1 || err != nil || len(f.kinds["rules"]) != 1 {
		t.Errorf("%d were deleted with the last cluster, and %d rules are left: %v", n, len(f.kinds["rules"]), err)
	}
}

// TestUnboundedCredential: if a service or Keystone does not support access rules, the credential has none, and a warning says why; nothing remains
// of the attempt. A service that does not answer proves nothing.
func TestUnboundedCredential(t *testing.T) {
	useFake(t)
	for _, x := range []struct{ untyped, rules, want string }{
		{"cinder", "", "block storage (service_type = block-storage);"},
		{"nova octavia", "", "compute (service_type = compute), load-balancer (service_type = load-balancer);"},
		{"", "ignored", "Keystone knows no access rules"},
		{"", "refused", "Keystone knows no access rules"},
	} {
		f := &fakeKeystone{fakeCloud: newFakeCloud(), untyped: x.untyped, rules: x.rules}
		cred, err := f.provider(t, "t3-one-00000001").NewCloudCredential(t.Context(), "")
		if err != nil || cred.Bounded || !strings.Contains(cred.Reach, x.want) {
			t.Errorf("%+v: bounded %t, for %q: %v", x, cred.Bounded, cred.Reach, err)
		}
		if made := f.get("credentials", cred.ID); len(f.kinds["credentials"]) != 1 || len(f.kinds["rules"]) != 0 || made["access_rules"] != nil {
			t.Errorf("%+v: there are %v and %v", x, f.kinds["credentials"], f.kinds["rules"])
		}
	}
	f := &fakeKeystone{fakeCloud: newFakeCloud()}
	cred, err := f.provider(t, "t3-one-00000001").NewCloudCredential(t.Context(), "volumes are encrypted")
	if err != nil || cred.Bounded || cred.Reach != "volumes are encrypted" || len(f.kinds["rules"]) != 0 {
		t.Errorf("asked for without: bounded %t, for %q: %v", cred.Bounded, cred.Reach, err)
	}
	f = &fakeKeystone{fakeCloud: newFakeCloud(), down: "neutron"}
	_, err = f.provider(t, "t3-one-00000001").NewCloudCredential(t.Context(), "")
	testkit.Fails(t, err, fail.Unreachable, "network service", "it is down")
	if len(f.kinds["credentials"]) != 0 || len(f.kinds["rules"]) != 0 {
		t.Errorf("there are %v and %v", f.kinds["credentials"], f.kinds["rules"])
	}
}

// TestCredentialForDesignate: the credential admits calls of Designate only if the document has external-dns write there, and says so; a Designate that takes
// no credential with access rules is named, and so is a cloud without one.
func TestCredentialForDesignate(t *testing.T) {
	useFake(t)
	f := &fakeKeystone{fakeCloud: newFakeCloud()}
	f.addZone("example.org.")
	doc := fakeDocument(t)
	rules := func() string { return fmt.Sprint(f.kinds["rules"]) }
	provider := func() *Provider {
		p := f.provider(t, "t3-life-0badc0de")
		p.opts.Cluster = doc
		return p
	}
	cred := testkit.Value(provider().NewCloudCredential(t.Context(), ""))(t)
	if !cred.Bounded || cred.DNS || strings.Contains(rules(), "service:dns") {
		t.Errorf("without the addon: %+v, with rules %s", cred.DNS, rules())
	}
	doc.Spec.Addons = []v1alpha1.Addon{{Name: v1alpha1.AddonExternalDNS, ExternalDNS: &v1alpha1.ExternalDNS{Designate: &v1alpha1.Designate{Zones: []string{"example.org"}}}}}
	cred = testkit.Value(provider().NewCloudCredential(t.Context(), ""))(t)
	if !cred.Bounded || !cred.DNS || !strings.Contains(rules(), "path:/v2/zones/*/recordsets service:dns") {
		t.Errorf("with the addon: %t, with rules %s", cred.DNS, rules())
	}
	f.untyped = "designate"
	cred = testkit.Value(provider().NewCloudCredential(t.Context(), ""))(t)
	if cred.Bounded || cred.DNS || !strings.Contains(cred.Reach, "dns (service_type = dns)") {
		t.Errorf("a Designate that refuses access rules: %t, %s", cred.Bounded, cred.Reach)
	}
	f.lacks = "dns"
	_, err := provider().NewCloudCredential(t.Context(), "")
	testkit.Fails(t, err, fail.Refused, "find the dns service", "rfc2136")
}
