package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// certificates reads all certificates of PEM data.
func certificates(t *testing.T, data []byte) (certs []*x509.Certificate) {
	t.Helper()
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			return certs
		}
		certs = append(certs, testkit.Value(x509.ParseCertificate(b.Bytes))(t))
	}
}

// verifies reports whether a client that trusts roots accepts a server with these certificates.
func verifies(shown []*x509.Certificate, now time.Time, roots ...*x509.Certificate) bool {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now, DNSName: "kubernetes"}
	for _, r := range roots {
		o.Roots.AddCert(r)
	}
	for _, c := range shown[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := shown[0].Verify(o)
	return err == nil
}

// TestAuthorityTurns takes an authority through the phases of two rotations: clients that trust the right certificates verify what each phase
// issues, leaves follow the signing generation, and clients that never learned of another generation continue through the chain while it is
// valid.
func TestAuthorityTurns(t *testing.T) {
	now := time.Now()
	secrets := &pkitest.MemorySecrets{}
	k := pki.Open(secrets, pki.Options{Now: func() time.Time { return now }})
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
	first, old := trusted(), leaf()
	if len(first) != 1 || len(old) != 1 {
		t.Fatalf("%d authorities, %d certificates in a server's chain", len(first), len(old))
	}
	use(1, 2)
	both := trusted()
	if len(both) != 2 || !both[0].Equal(first[0]) || both[1].Equal(both[0]) {
		t.Fatalf("the bundle has %d certificates after a second generation was added", len(both))
	}
	if same := leaf(); !same[0].Equal(old[0]) || len(same) != 1 {
		t.Error("a leaf changes before its authority does")
	}
	use(2, 1)
	if got := trusted(); len(got) != 2 || !got[0].Equal(both[1]) || !got[1].Equal(both[0]) {
		t.Error("the signing authority is not the first trusted one")
	}
	fresh := leaf()
	if fresh[0].Equal(old[0]) || len(fresh) != 2 {
		t.Fatalf("the leaf of another authority is the same; %d in its chain", len(fresh))
	}
	if signer := testkit.Value(k.Signer(t.Context(), pki.KubernetesCA))(t); !certificates(t, signer)[0].Equal(both[1]) {
		t.Error("the former one signs")
	}
	if !verifies(fresh, now, both[1]) || !verifies(fresh, now, both[0]) || !verifies(old, now, both...) || verifies(fresh[:1], now, both[0]) {
		t.Error("the wrong clients trust a server")
	}
	use(2, 0)
	testkit.Must(t, k.Forget(t.Context(), pki.KubernetesCA, 1))
	if got := trusted(); len(got) != 1 || verifies(old, now, got...) {
		t.Error("the former authority is trusted")
	}
	if got := leaf(); !got[0].Equal(fresh[0]) || len(got) != 2 || !verifies(got, now, both[0]) {
		t.Error("clients from before can't go on")
	}
	testkit.Must(t, k.Ensure(t.Context()))
	if names := testkit.Value(secrets.Names(t.Context()))(t); slices.Contains(names, "authority/kubernetes-ca") {
		t.Errorf("the former authority could still sign: %v", names)
	}
	use(3, 2)
	if got := leaf(); len(got) != 3 || !verifies(got, now, both[0]) || !verifies(got, now, both[1]) {
		t.Error("clients from before two rotations can't go on")
	}
	now = now.Add(2 * 365 * 24 * time.Hour)
	use(3, 0)
	if got := leaf(); len(got) != 1 {
		t.Errorf("a chain that has ended is shown: %d", len(got))
	}
}

// TestKeysTurn takes the other keys through the phases of a rotation.
func TestKeysTurn(t *testing.T) {
	k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{})
	id := func() string { return testkit.Value(k.ServiceAccountKeyID(t.Context()))(t) }
	keys := func() (private string, public []string) {
		signs, verify, err := k.ServiceAccountKey(t.Context())
		testkit.Must(t, err)
		return string(signs), strings.SplitAfter(strings.TrimSpace(string(verify))+"\n", "-----END PUBLIC KEY-----\n")
	}
	use := func(g pki.Generations) {
		k.Use(map[string]pki.Generations{pki.ServiceAccountKeyName: g, pki.SSHKeyName: g})
	}
	oldKey, oldPublic := keys()
	oldID, oldSSH := id(), testkit.Value(k.SSHPublicKeys(t.Context()))(t)
	use(pki.Generations{Signs: 1, Also: 2})
	key, public := keys()
	if key != oldKey || id() != oldID || len(public) != 3 || public[0] != oldPublic[0] {
		t.Errorf("before the switch it signs by another, or verifies by %d", len(public)-1)
	}
	if lines := testkit.Value(k.SSHPublicKeys(t.Context()))(t); len(lines) != 2 || lines[0] != oldSSH[0] {
		t.Errorf("the SSH keys are %v", lines)
	}
	use(pki.Generations{Signs: 2, Also: 1})
	if key, public = keys(); key == oldKey || id() == oldID || public[1] != oldPublic[0] {
		t.Error("after the switch it signs by the same, or the former is not trusted")
	}
	use(pki.Generations{Signs: 2})
	testkit.Must(t, k.Forget(t.Context(), pki.ServiceAccountKeyName, 1))
	if _, public = keys(); len(public) != 2 || public[0] == oldPublic[0] {
		t.Error("the former key is trusted")
	}
	if lines := testkit.Value(k.SSHPublicKeys(t.Context()))(t); len(lines) != 1 || lines[0] == oldSSH[0] {
		t.Errorf("the SSH keys are %v", lines)
	}
	if g := k.Generations(pki.EtcdCA); g != (pki.Generations{Signs: 1}) {
		t.Errorf("the generations of an authority that was never rotated: %v", g)
	}
	if _, err := k.Signer(t.Context(), "nobody"); fail.KindOf(err) != fail.Internal {
		t.Errorf("an unknown authority: %v", err)
	}
}
