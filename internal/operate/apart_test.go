package operate

import (
	"fmt"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestClustersKeepApart: no document names the authorities or the backups of another stored one.
func TestClustersKeepApart(t *testing.T) {
	const head = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\nspec:\n  provider: {metal: {}}\n  endpoint: {vip: 192.0.2.10}\n  workers: [{name: a}]\n"
	vault := func(address, namespace, mount, credential string) string {
		return fmt.Sprintf("  pki: {issuer: {vault: {address: %q, namespace: %q, mount: %q, auth: {method: appRole, credential: %s}}}}\n", address, namespace, mount, credential)
	}
	s3 := func(host, bucket, prefix string) string {
		return fmt.Sprintf("  backup: {to: {s3: {endpoint: %q, bucket: %s, prefix: %q, credential: s3}}}\n", host, bucket, prefix)
	}
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	defer st.Close()
	first := fmt.Sprintf(head, "prod-a") + vault("https://vault.example.org:8200", "team", "pki/prod-a", "vault-prod") + s3("https://s3.example.org", "backups", "k8s")
	testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: "prod-a", Provider: "metal", Document: []byte(first)}))(t)
	for name, c := range map[string]struct {
		name, spec string
		refused    bool
	}{
		"itself":                 {"prod-a", vault("https://vault.example.org:8200", "team", "pki/prod-a", "vault-prod"), false},
		"its own mount":          {"prod-b", vault("https://vault.example.org:8200", "team", "pki/prod-b", "vault-prod"), false},
		"the other's mount":      {"prod-b", vault("https://vault.example.org:8200", "team", "pki/prod-a", "vault-prod"), true},
		"by the namespace":       {"prod-b", vault("https://vault.example.org:8200", "team/pki", "prod-a", "vault-prod"), true},
		"by another name":        {"prod-b", vault("https://VAULT.example.org.:8200", "team", "pki/prod-a", "vault-prod"), true},
		"another credential":     {"prod-b", vault("https://VAULT.example.org:8200", "team", "pki/prod-a", "vault-b"), true},
		"another Vault":          {"prod-b", vault("https://vault.example.com:8200", "team", "pki/prod-a", "vault-b"), false},
		"beside":                 {"prod-b", s3("https://s3.example.org", "backups", "k8s"), false},
		"among the other's":      {"prod-b", s3("https://s3.example.org", "backups", "k8s/prod-a"), true},
		"below the other's":      {"prod-b", s3("https://s3.example.org", "backups", "k8s/prod-a/20260101"), true},
		"around the other's":     {"k8s", s3("https://s3.example.org", "backups", ""), true},
		"a bucket of another":    {"prod-b", s3("https://s3.example.org", "other", "k8s/prod-a"), false},
		"a prefix that is alike": {"prod-b", s3("https://s3.example.org", "backups", "k8s/prod-a2"), false},
	} {
		doc, err := validation.Parse(name, []byte(fmt.Sprintf(head, c.name)+c.spec))
		testkit.Must(t, err)
		if err := apart(t.Context(), st, doc); (fail.KindOf(err) == fail.Refused) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
