package cluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/pki/vault/vaulttest"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// vaulted returns a lab whose certificates are signed by a Vault that was set up with the printed commands.
func vaulted(t *testing.T) (*lab, *vaulttest.Fake) {
	t.Helper()
	f := vaulttest.NewFake(t)
	f.Run(vault.Commands("demo", f.Spec))
	doc := document(t, 3, 1, 2)
	doc.Spec.PKI.Issuer = &v1alpha1.Issuer{Vault: &f.Spec}
	l := newLab(t, doc)
	l.Vault = testkit.Value(vault.New("demo", f.Spec, vault.Options{}))(t)
	l.PKI = pki.Open(l.Secrets, pki.Options{Issuer: l.Vault})
	testkit.Must(t, l.PKI.Ensure(t.Context()))
	return l, f
}

// TestNoAuthorityKeyAnywhere renders every machine of a cluster whose authorities are in Vault, with the printed roles and policies.
func TestNoAuthorityKeyAnywhere(t *testing.T) {
	l, f := vaulted(t)
	testkit.Must(t, l.IssuerReady(t.Context()))
	l.Running(l.Doc)
	o := l.observed(nil, controlPlanes(3)...)
	testkit.Must(t, o.Unsigned())
	for _, s := range o.Want {
		config := testkit.Value(l.configuration(s))(t)
		for _, file := range config.Files {
			if strings.HasSuffix(file.Path, "ca.key") {
				t.Errorf("%s has %s", s.Name, file.Path)
			}
			if strings.HasSuffix(file.Path, "/ca.crt") && bytes.Contains(file.Content, []byte("PRIVATE KEY")) {
				t.Errorf("%s: %s has a key", s.Name, file.Path)
			}
		}
	}
	for _, ad := range l.AddonList() {
		if ad.Name == observe.AddonApprover {
			t.Error("there is nothing to approve")
		}
	}
	files := map[string][]byte{}
	testkit.Must(t, l.addPKI(t.Context(), files))
	for name := range files {
		if strings.HasSuffix(name, "ca.key") {
			t.Errorf("%s is handed over", name)
		}
	}
	before := len(f.Look().Signed)
	l.observed(nil, controlPlanes(3)...)
	if n := len(f.Look().Signed) - before; n > 0 {
		t.Errorf("a second look has %d certificates signed", n)
	}
}

func TestBeginsOnlyWithItsIssuer(t *testing.T) {
	l, f := vaulted(t)
	f.Change(func(s *vaulttest.State) { s.Sealed = true })
	_, err := l.PlanApply(t.Context())
	testkit.Fails(t, err, fail.NotReady, "sealed", "vault operator unseal")
	if n := len(f.Look().Signed); n > 0 {
		t.Errorf("%d certificates were signed before", n)
	}
}

// TestGoesOnWithoutItsIssuer: without Vault, a running cluster is observed as usual, and a machine that needs a certificate does not count as
// broken.
func TestGoesOnWithoutItsIssuer(t *testing.T) {
	l, f := vaulted(t)
	l.Running(l.Doc)
	l.observed(nil, controlPlanes(3)...)
	f.Stop()
	testkit.Must(t, l.IssuerReady(t.Context()))
	testkit.Must(t, l.observed(nil, controlPlanes(3)...).Unsigned())
	testkit.Must(t, l.PKI.ForgetMachine(t.Context(), "demo-a-2"))
	testkit.Fails(t, l.observed(nil, controlPlanes(3)...).Unsigned(), fail.Unreachable, "Vault at", "no answer")
	checks := testkit.Value(l.CheckIssuer(t.Context()))(t)
	if len(checks) != 1 || checks[0].Result != provider.Failing || !strings.Contains(checks[0].Detail, "no answer") {
		t.Errorf("checked: %+v", checks)
	}
}

// TestAuthoritiesInVaultAreRotated goes through the phases by a token for that, and takes another rotation back.
func TestAuthoritiesInVaultAreRotated(t *testing.T) {
	l, f := vaulted(t)
	l.Running(l.Doc)
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(l.Doc.Marshal())(t))))
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	l.everythingDone()
	l.phase()
	_, err := l.Rotate(t.Context(), []string{pki.EtcdCA, pki.SSHKeyName}, false)
	testkit.Fails(t, err, fail.Unauthorized, "may not rotate authorities", "VAULT_ROTATION_TOKEN", "certs issuer demo --rotation")
	if l.Rotating() {
		t.Fatal("it is begun without")
	}
	before := testkit.Value(l.PKI.CABundle(t.Context(), pki.EtcdCA))(t)

	f.Change(func(s *vaulttest.State) { s.Rotators["hvs.rotation"] = true })
	t.Setenv(vault.RotationToken, "hvs.rotation")
	keys := []string{pki.EtcdCA, pki.SSHKeyName}
	testkit.Value(l.Rotate(t.Context(), keys, false))(t)
	var plans []string
	for l.Rotating() {
		if len(plans) > 4 {
			t.Fatalf("no end:\n%s", strings.Join(plans, "\n"))
		}
		plans = append(plans, l.phase())
		l.ended()
	}
	if got := strings.Count(plans[0], "\n"); len(plans) != 4 || !strings.Contains(plans[0], "rotation") || strings.Contains(plans[0], "configure/") || got > 3 {
		t.Errorf("it begins with:\n%s", strings.Join(plans, "\nthen:\n"))
	}
	if after := testkit.Value(l.PKI.CABundle(t.Context(), pki.EtcdCA))(t); bytes.Equal(before, after) {
		t.Error("the authority is the same")
	}
	if all := f.Look().Issuers["pki/demo/etcd-ca"]; len(all) != 2 || strings.Contains(all[1].Usage, "issuing") {
		t.Errorf("in Vault there are %d issuers, the last for %s", len(all), all[len(all)-1].Usage)
	}
	if all := f.Look().Issuers["pki/demo/kubernetes-ca"]; len(all) != 1 {
		t.Errorf("of an authority that was not rotated there are %d issuers", len(all))
	}

	was, names := l.have["demo-cp-1"].Digest(), l.secretNames()
	testkit.Value(l.Rotate(t.Context(), keys, false))(t)
	for range 2 { // until both are trusted
		l.phase()
		l.ended()
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Rotation, "trust etcd-ca:2,ssh:2"))
	testkit.Must(t, l.AbandonRotation(t.Context()))
	l.phase()
	l.ended()
	if got := l.phase(); got != "" || l.Rotating() || l.have["demo-cp-1"].Digest() != was || !slices.Equal(l.secretNames(), names) {
		t.Errorf("taken back, there are %v, before %v:\n%s", l.secretNames(), names, got)
	}
	if all := f.Look().Issuers["pki/demo/etcd-ca"]; len(all) != 3 || strings.Contains(all[2].Usage, "issuing") || !strings.Contains(all[0].Usage, "issuing") {
		t.Errorf("taken back, in Vault there are %d issuers", len(all))
	}
}
