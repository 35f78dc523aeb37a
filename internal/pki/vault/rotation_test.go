package vault_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/pki/vault/vaulttest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// turns takes the authorities of a cluster from one generation to the next, as a rotation does, and checks which clients trust which servers.
func turns(t *testing.T, s *vault.Server, k *pki.PKI, from int) {
	t.Helper()
	use := func(signs, also int) {
		in := map[string]pki.Generations{}
		for _, name := range pki.Authorities() {
			in[name] = pki.Generations{Signs: signs, Also: also}
		}
		k.Use(in)
	}
	use(from, 0)
	have := map[string][]byte{}
	for _, name := range pki.Authorities() {
		have[name] = testkit.Value(k.CABundle(t.Context(), name))(t)
	}
	testkit.Must(t, s.MayRotate(t.Context(), have))
	for _, name := range slices.Concat(pki.Authorities(), pki.Authorities()) { // twice: existing mounts stay
		testkit.Must(t, k.Prepare(t.Context(), name, from))
	}
	use(from+1, from)
	for _, l := range leaves() {
		pair := testkit.Value(k.Leaf(t.Context(), l))(t)
		chain := slices.Concat(pair.CertPEM, testkit.Value(k.CrossChain(t.Context(), l.Authority))(t))
		next := testkit.Value(k.Signer(t.Context(), l.Authority))(t)
		if !believes(t, next, pair.CertPEM) || believes(t, have[l.Authority], pair.CertPEM) || !believes(t, have[l.Authority], chain) {
			t.Errorf("%s: by the next %t, by the former %t, by the chain %t", l.Name, believes(t, next, pair.CertPEM), believes(t, have[l.Authority], pair.CertPEM),
				believes(t, have[l.Authority], chain))
		}
	}
	use(from+1, 0)
	for _, name := range slices.Concat(pki.Authorities(), pki.Authorities()) {
		testkit.Must(t, k.Retire(t.Context(), name, from, from+1))
	}
	for _, name := range pki.Authorities() {
		testkit.Must(t, k.Forget(t.Context(), name, from))
	}
}

// believes reports whether a client that trusts a certificate accepts the first one of a chain.
func believes(t *testing.T, root, chain []byte) bool {
	t.Helper()
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	o.Roots.AppendCertsFromPEM(root)
	block, rest := pem.Decode(chain)
	o.Intermediates.AppendCertsFromPEM(rest)
	_, err := testkit.Value(x509.ParseCertificate(block.Bytes))(t).Verify(o)
	return err == nil
}

// rotatable is a Vault and a cluster that uses it, with a token for rotations in the environment.
func rotatable(t *testing.T) (*vaulttest.Fake, *vault.Server, *pki.PKI) {
	t.Helper()
	f, s := ready(t)
	f.Change(func(s *vaulttest.State) { s.Rotators["hvs.rotation"] = true })
	t.Setenv(vault.RotationToken, "hvs.rotation")
	return f, s, pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
}

func TestRotates(t *testing.T) {
	f, s, k := rotatable(t)
	for from := 1; from <= 2; from++ {
		turns(t, s, k, from)
		for mount, all := range f.Look().Issuers {
			if len(all) != from+1 || !strings.HasPrefix(all[0].Name, "naupegos-") || !strings.Contains(all[0].Usage, "issuing-certificates") {
				t.Errorf("%s has %d issuers, of which the default one is called %s and is for %s", mount, len(all), all[0].Name, all[0].Usage)
			}
			for _, a := range all[1:] {
				if strings.Contains(a.Usage, "issuing-certificates") || a.Name == "naupegos-next" {
					t.Errorf("%s: the former issuer %s is for %s", mount, a.Name, a.Usage)
				}
			}
		}
	}
	testkit.Must(t, s.Ready(t.Context(), nil))
	other := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s}) // a new client uses the rotated authority
	if now, first := testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t), testkit.Value(other.CABundle(t.Context(), pki.EtcdCA))(t); string(now) != string(first) {
		t.Error("another authority is the default one")
	}
}

// TestRotationIsAllowed: nothing begins without permission, and the error lists what is missing.
func TestRotationIsAllowed(t *testing.T) {
	f, s, k := rotatable(t)
	have := map[string][]byte{pki.EtcdCA: testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t)}
	testkit.Must(t, s.MayRotate(t.Context(), have))
	words := []string{"may not rotate authorities", "set $VAULT_ROTATION_TOKEN", "certs issuer demo --rotation"}
	for _, path := range []string{"/root/generate/internal", "/intermediate/cross-sign", "/sign-intermediate", "/config/issuers", "/issuer/id-etcd-ca-1"} {
		f.Change(func(s *vaulttest.State) { s.Forbid = path })
		testkit.Fails(t, s.MayRotate(t.Context(), have), fail.Unauthorized, append(words, path)...)
	}
	f.Change(func(s *vaulttest.State) { s.Forbid = "" })
	t.Setenv(vault.RotationToken, "")
	testkit.Fails(t, s.MayRotate(t.Context(), have), fail.Unauthorized, words...) // with the everyday credential
	t.Setenv(vault.RotationToken, "hvs.ended")
	testkit.Fails(t, s.MayRotate(t.Context(), have), fail.Unauthorized, words...)
	testkit.Fails(t, k.Prepare(t.Context(), pki.EtcdCA, 1), fail.Unauthorized, words...)
	if n := len(f.Look().Issuers["pki/demo/etcd-ca"]); n != 1 {
		t.Errorf("there are %d issuers", n)
	}
}

// TestFollowsWhoIsNamed uses an issuer from another source; naming the current issuer would rotate nothing.
func TestFollowsWhoIsNamed(t *testing.T) {
	f, _, k := rotatable(t)
	testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t)
	other := pkitest.NewAuthority(t).PEM()
	f.Change(func(s *vaulttest.State) {
		s.Issuers["pki/demo/etcd-ca"] = append(s.Issuers["pki/demo/etcd-ca"], &vaulttest.Authority{ID: "theirs", Name: "naupegos-next", Certificate: other})
	})
	testkit.Must(t, k.Prepare(t.Context(), pki.EtcdCA, 1))
	k.Use(map[string]pki.Generations{pki.EtcdCA: {Signs: 2}})
	if got := testkit.Value(k.Signer(t.Context(), pki.EtcdCA))(t); string(got) != string(other) {
		t.Error("another one was made")
	}

	f, _, k = rotatable(t)
	testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t)
	f.Change(func(s *vaulttest.State) { s.Issuers["pki/demo/etcd-ca"][0].Name = "naupegos-next" })
	testkit.Fails(t, k.Prepare(t.Context(), pki.EtcdCA, 1), fail.Refused, "has the key of the present one")
}

func TestRotationCommands(t *testing.T) {
	spec := v1alpha1.Vault{Address: "https://vault.example.org:8200", Mount: "pki/demo", Namespace: "team-a"}
	testkit.Golden(t, "rotation.golden", vault.RotationCommands("demo", spec))
}
