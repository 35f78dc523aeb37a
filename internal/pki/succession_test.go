package pki_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIssuerTurns takes an authority with an external key through the phases of two rotations; the second one is first reverted.
func TestIssuerTurns(t *testing.T) {
	s, i := &pkitest.MemorySecrets{}, &pkitest.Issuer{}
	k, c := elsewhere(s, i)
	leaf := func() []*x509.Certificate {
		p := testkit.Value(k.Leaf(t.Context(), pki.LeafSpec{Name: "m/apiserver", Authority: pki.KubernetesCA, CommonName: "s", DNSNames: []string{"kubernetes"}, Server: true}))(t)
		return certificates(t, slices.Concat(p.CertPEM, testkit.Value(k.CrossChain(t.Context(), pki.KubernetesCA))(t)))
	}
	trusted := func() []*x509.Certificate {
		return certificates(t, testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t))
	}
	use := func(signs, also int) {
		k.Use(map[string]pki.Generations{pki.KubernetesCA: {Signs: signs, Also: also}})
	}
	names := func() string { return strings.Join(testkit.Value(s.Names(t.Context()))(t), " ") }
	first, old := trusted(), leaf()
	use(1, 2)
	if _, err := k.CABundle(t.Context(), pki.KubernetesCA); err == nil || !strings.Contains(err.Error(), "was not prepared") {
		t.Errorf("an authority that was not prepared is trusted: %v", err)
	}
	use(1, 0)
	for range 2 { // the second time it exists
		testkit.Must(t, k.Prepare(t.Context(), pki.KubernetesCA, 1))
	}
	use(1, 2)
	both := trusted()
	if len(both) != 2 || !both[0].Equal(first[0]) || slices.Equal(both[0].RawSubjectPublicKeyInfo, both[1].RawSubjectPublicKeyInfo) {
		t.Fatalf("%d are trusted, the first is the former: %v", len(both), both[0].Equal(first[0]))
	}
	if same := leaf(); !same[0].Equal(old[0]) || len(same) != 1 {
		t.Error("a leaf changes before its authority does")
	}
	use(2, 1)
	fresh := leaf()
	if len(fresh) != 2 || fresh[0].CheckSignatureFrom(both[1]) != nil {
		t.Fatalf("the next authority has not signed: %d in the chain", len(fresh))
	}
	if !verifies(fresh, c.now, both[1]) || !verifies(fresh, c.now, both[0]) || verifies(fresh[:1], c.now, both[0]) {
		t.Error("the wrong clients trust a server")
	}
	use(2, 0)
	testkit.Must(t, k.Retire(t.Context(), pki.KubernetesCA, 1, 2))
	testkit.Must(t, k.Forget(t.Context(), pki.KubernetesCA, 1))
	testkit.Must(t, k.Retire(t.Context(), pki.KubernetesCA, 1, 2)) // by a run after an interrupted one
	if got := trusted(); len(got) != 1 || verifies(old, c.now, got...) {
		t.Error("the former authority is trusted")
	}
	if got := leaf(); len(got) != 2 || !verifies(got, c.now, both[0]) {
		t.Error("clients from before can't go on")
	}

	before := names()
	testkit.Must(t, k.Prepare(t.Context(), pki.KubernetesCA, 2))
	testkit.Must(t, k.Retire(t.Context(), pki.KubernetesCA, 3, 2))
	testkit.Must(t, k.Forget(t.Context(), pki.KubernetesCA, 3))
	if got := names(); len(got) != len(before) {
		t.Errorf("taken back, there are %s; before %s", got, before)
	}
	testkit.Must(t, k.Prepare(t.Context(), pki.KubernetesCA, 2))
	use(3, 2)
	if got := leaf(); len(got) != 3 || !verifies(got, c.now, both[0]) || !verifies(got, c.now, both[1]) || !verifies(got, c.now, trusted()[0]) {
		t.Errorf("clients from before two rotations can't go on: %d in the chain", len(got))
	}
}

// TestIssuerDoesNotTurn: if an issuer returns something other than a new authority, or one without a chain to the old one, nothing is stored.
func TestIssuerDoesNotTurn(t *testing.T) {
	for name, c := range map[string]struct {
		with  func(*pkitest.Issuer)
		kind  fail.Kind
		words string
	}{
		"the same": {func(i *pkitest.Issuer) { i.Same = true }, fail.Refused, "has the key of the present one"},
		"gone":     {func(i *pkitest.Issuer) { i.Err = fail.New(fail.Unreachable, "no answer") }, fail.Unreachable, "no answer"},
		"ends too soon": {func(i *pkitest.Issuer) {
			i.Now = func() time.Time { return start.Add(-9*365*24*time.Hour - 24*time.Hour) }
		}, fail.Refused, "before a certificate of today would"},
		"vouches for another": {func(i *pkitest.Issuer) {
			i.Spoil = func(c *x509.Certificate) { c.Subject.CommonName, c.RawSubject = "x", nil }
		}, fail.Refused, "the subject is CN=x"},
		"vouches for a leaf": {func(i *pkitest.Issuer) {
			i.Spoil = func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }
		}, fail.Refused, "it may sign nothing"},
		"vouches for a while": {func(i *pkitest.Issuer) { i.Spoil = func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) } }, fail.Refused, "it is valid from"},
	} {
		t.Run(name, func(t *testing.T) {
			s, i := &pkitest.MemorySecrets{}, &pkitest.Issuer{}
			k, _ := elsewhere(s, i)
			testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t)
			c.with(i)
			err := k.Prepare(t.Context(), pki.EtcdCA, 1)
			testkit.Fails(t, err, c.kind, c.words)
			if names := strings.Join(testkit.Value(s.Names(t.Context()))(t), " "); strings.Contains(names, "cross/") || strings.HasPrefix(name, "the same") && strings.Contains(names, "/2") {
				t.Errorf("it is remembered: %s", names)
			}
		})
	}
}
