package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
	"github.com/naupegos/naupegos/internal/testkit"
)

const policyHead = "apiVersion: naupegos.dev/v1alpha1\nkind: ServerPolicy\n"

// TestServerPolicyIsStrict: every mistake is refused with its line and field.
func TestServerPolicyIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "p.yaml:1:1: the document is empty",
		"[]":                                 "p.yaml:1:1: expected a mapping with apiVersion, kind: ServerPolicy",
		"a: b: c":                            "p.yaml:1:",
		"providers: [metal]\n":               "apiVersion: is required",
		policyHead + "provders: [metal]\n":   "p.yaml:3:1: provders: unknown key (did you mean \"providers\"?)",
		policyHead + "providers: [vmware]\n": `p.yaml:3:13: providers[0]: "vmware" is not a provider`,
		policyHead + "providers: metal\n":    "p.yaml:3:12: providers: expected a list",
		policyHead + "clusters:\n- names: [\"a[\"]\n":             `p.yaml:4:11: clusters[0].names[0]: "a[" is not a name or a pattern`,
		policyHead + "clusters:\n- endpoints: [https://u:p@v]\n":  "p.yaml:4:15: clusters[0].endpoints[0]:",
		policyHead + "clusters:\n- endpoints: [10.0.0.1/8]\n":     "is not a network: 10.0.0.0/8 is",
		policyHead + "clusters:\n- releases: [\"1.37\"]\n":        `p.yaml:4:14: clusters[0].releases[0]: "1.37" is not a release`,
		policyHead + "clusters:\n- backupDirectories: [../x]\n":   "clusters[0].backupDirectories[0]:",
		policyHead + "clusters:\n- autoscalePorts: \"9-1\"\n":     "clusters[0].autoscalePorts:",
		policyHead + "providers: [metal]\nproviders: [local]\n":   "is given twice",
		strings.Replace(policyHead, "ServerPolicy", "Cluster", 1): "kind",
	} {
		p, err := validation.ParseServerPolicy("p.yaml", []byte(text))
		if err == nil {
			t.Errorf("%q is accepted: %+v", text, p)
			continue
		}
		testkit.Fails(t, err, fail.Invalid, want)
	}
}

// TestServerPolicyRules: the first rule that matches a cluster applies; a server without rules is strict.
func TestServerPolicyRules(t *testing.T) {
	p := testkit.Value(validation.ParseServerPolicy("p.yaml", []byte(policyHead+"clusters:\n- names: [prod-*]\n  releases: [v1.36]\n- endpoints: [vault:8200]\n")))(t)
	if strings.Join(p.Providers, " ") != "openstack metal" {
		t.Errorf("providers are %q", p.Providers)
	}
	if c := p.For("prod-a"); len(c.Releases) != 1 || len(c.Endpoints) != 0 || c.AutoscalePorts != "8086-8185" {
		t.Errorf("prod-a: %+v", c)
	}
	if c := p.For("test"); len(c.Endpoints) != 1 || len(c.Releases) != 0 {
		t.Errorf("test: %+v", c)
	}
	if c := v1alpha1.DefaultServerPolicy().For("x"); len(c.Endpoints) != 0 || c.AutoscalePorts != "8086-8185" {
		t.Errorf("without a policy: %+v", c)
	}
}

// TestPlaces: which addresses an entry covers. Nothing is sent in plain text unless the entry says http.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		place, address string
		want           bool
	}{
		{"vault.example.org", "https://vault.example.org", true}, {"vault.example.org", "https://VAULT.example.org.:8200", true},
		{"vault.example.org", "http://vault.example.org", false}, {"vault.example.org", "https://vault.example.org.evil.net", false},
		{"vault.example.org:8200", "https://vault.example.org:8200", true}, {"vault.example.org:8200", "https://vault.example.org", false},
		{"vault.example.org:8200", "https://evil.net:8200", false}, {"http://127.0.0.1:8200", "http://127.0.0.1:8200", true},
		{"http://127.0.0.1:8200", "https://127.0.0.1:8200", false}, {"https://s3", "https://s3:443", true}, {"https://s3", "https://s3:9000", false},
		{"10.0.0.0/16", "https://10.0.200.1:5000", true}, {"10.0.0.0/16", "https://10.1.0.1", false}, {"10.0.0.0/16", "https://[::ffff:10.0.0.1]", true},
		{"10.0.0.0/16", "https://ten.example.org", false}, {"10.0.0.1", "https://[::ffff:10.0.0.1]:1", true}, {"[fd00::1]:443", "https://[FD00:0::1]", true},
		{"fd00::1", "https://[fd00::2]", false},
	} {
		p := testkit.Value(place.ParsePlace(c.place))(t)
		a := testkit.Value(place.ParseAddress(c.address))(t)
		if got := p.Covers(a); got != c.want {
			t.Errorf("%s covers %s: %v", c.place, c.address, got)
		}
	}
	for _, text := range []string{"", "*", "*.example.org", "a b", "ftp://x", "https://", "https://x/path", "https://x?y", "x:0", "x:99999", "x:", "10.0.0.0/33", "https://10.0.0.0/16", "-x", "x\n"} {
		if p, err := place.ParsePlace(text); err == nil {
			t.Errorf("%q is a place: %+v", text, p)
		}
	}
	for _, text := range []string{"", "vault", "https://u:p@vault", "https://vault:0", "ssh://x", "https://vault:x"} {
		if a, err := place.ParseAddress(text); err == nil {
			t.Errorf("%q is an address: %+v", text, a)
		}
	}
}
