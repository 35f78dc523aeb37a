package rehearse

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKeysOfAuthoritiesElsewhere: for a set without its authorities' keys, the sandbox gets authorities of its own and all other keys of the set.
func TestKeysOfAuthoritiesElsewhere(t *testing.T) {
	in := memory.NewOverlay(nil)
	was := pki.Open(in, pki.Options{Issuer: &pkitest.Issuer{}})
	testkit.Must(t, was.Ensure(t.Context()))
	set := Set{Secrets: map[string][]byte{}, Document: &v1alpha1.Cluster{Spec: v1alpha1.Spec{PKI: v1alpha1.PKI{Issuer: &v1alpha1.Issuer{Vault: &v1alpha1.Vault{}}}}}}
	for _, name := range pki.Authorities() {
		testkit.Value(was.CABundle(t.Context(), name))(t)
	}
	for _, name := range testkit.Value(in.Names(t.Context()))(t) {
		set.Secrets[name] = testkit.Value(in.Get(t.Context(), name))(t)
	}
	k, known, err := keys(t.Context(), set)
	testkit.Must(t, err)
	theirs := testkit.Value(was.CABundle(t.Context(), pki.KubernetesCA))(t)
	if !bytes.Equal(known, theirs) {
		t.Error("clients know another authority")
	}
	if made := testkit.Value(k.Authority(t.Context(), pki.KubernetesCA))(t); bytes.Equal(made.CertPEM, theirs) || len(made.KeyPEM) == 0 {
		t.Error("the sandbox has no authority of its own")
	}
	private, _, err := k.ServiceAccountKey(t.Context())
	testkit.Must(t, err)
	if !bytes.Equal(private, set.Secrets[pki.ServiceAccountKeyName]) {
		t.Error("the service-account key is not the set's")
	}
	for name := range set.Secrets {
		without := set
		without.Secrets = map[string][]byte{}
		for n, v := range set.Secrets {
			if n != name {
				without.Secrets[n] = v
			}
		}
		_, _, err := keys(t.Context(), without)
		if strings.HasPrefix(name, "authority/") && !strings.HasSuffix(name, pki.KubernetesCA) {
			testkit.Must(t, err) // nothing in etcd names this authority
			continue
		}
		testkit.Fails(t, err, fail.Refused, "lacks")
	}
}
