//go:build integration

package vault_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/pki/vault/vaulttest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRealVault sets up a real Vault with the printed commands, and removes its requirements one by one.
func TestRealVault(t *testing.T) {
	testkit.OnlyFull(t, "vault_test.go has a Vault that is written by hand; the real one is compiled for a quarter of an hour")
	real := vaulttest.Start(t)
	file := filepath.Join(t.TempDir(), "credentials")
	spec := v1alpha1.Vault{Address: real.Address, Mount: "pki/demo", Auth: v1alpha1.VaultAuth{Method: v1alpha1.VaultAppRole, CredentialsFile: file}}
	by := func(method, credentials string) *vault.Server {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, []byte(credentials+"\n"), 0o600))
		spec := spec
		spec.Auth.Method = method
		return testkit.Value(vault.New("demo", spec, vault.Options{}))(t)
	}

	testkit.Fails(t, by(v1alpha1.VaultToken, real.Root).Ready(t.Context(), nil), fail.NotFound, "no PKI secrets engine at pki/demo/etcd-ca", "naupegos certs issuer demo")
	testkit.Fails(t, by(v1alpha1.VaultAppRole, "role_id=a\nsecret_id=b").Ready(t.Context(), nil), fail.Unauthorized, "sign in by appRole")

	said := real.Script(vault.Commands("demo", spec))
	var approle []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "role_id=") || strings.HasPrefix(line, "secret_id=") {
			approle = append(approle, strings.TrimSpace(line))
		}
	}
	s := by(v1alpha1.VaultAppRole, strings.Join(approle, "\n"))
	for _, f := range s.Check(t.Context(), nil) {
		if f.Err != nil || f.Warning {
			t.Errorf("%s: %s %v", f.Name, f.Detail, f.Err)
		}
	}
	signs(t, s)
	byToken := v1alpha1.VaultAuth{Method: v1alpha1.VaultToken}
	commands := vault.Commands("demo", v1alpha1.Vault{Mount: spec.Mount, Auth: byToken})
	token := strings.TrimSpace(real.Script(commands[strings.LastIndex(commands, "\nvault token create"):]))
	tokened := by(v1alpha1.VaultToken, token)
	testkit.Must(t, tokened.Ready(t.Context(), nil))
	signs(t, tokened)

	t.Run("a policy that forbids", func(t *testing.T) {
		other := strings.TrimSpace(real.Script("vault token create -policy=default -field=token"))
		testkit.Fails(t, by(v1alpha1.VaultToken, other).Ready(t.Context(), nil), fail.Unauthorized, "returned 403", "--policy")
	})
	t.Run("an expired token", func(t *testing.T) {
		s := by(v1alpha1.VaultToken, strings.TrimSpace(real.Script("vault token create -policy=naupegos-demo -ttl=1s -field=token")))
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
		var err error
		testkit.Until(t, 10*time.Second, 100*time.Millisecond, func() error {
			if _, err = k.Issue(t.Context(), leaves()[0], time.Hour); err == nil {
				return fail.New(fail.NotReady, "it is accepted still")
			}
			return nil
		})
		testkit.Fails(t, err, fail.Unauthorized, "has expired")
	})
	t.Run("a role that is gone", func(t *testing.T) {
		real.Script("vault delete pki/demo/kubernetes-ca/roles/server")
		err := s.Ready(t.Context(), nil)
		testkit.Fails(t, err, fail.Refused, "no role server: vault write")
		_, command, _ := strings.Cut(err.Error(), "no role server: ")
		real.Script(command) // the printed command repairs it
		testkit.Must(t, s.Ready(t.Context(), nil))
	})
	t.Run("a group without a role", func(t *testing.T) {
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: by(v1alpha1.VaultToken, real.Root)})
		leaf := pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "jo", Organizations: []string{"team:a"}, Client: true}
		_, err := k.Issue(t.Context(), leaf, time.Hour)
		testkit.Fails(t, err, fail.NotFound, "no role client-team-a")
		_, command, _ := strings.Cut(err.Error(), "(vault ")
		real.Script("vault " + strings.TrimSuffix(command, ")"))
		pair := testkit.Value(k.Issue(t.Context(), leaf, time.Hour))(t)
		if len(pair.KeyPEM) == 0 {
			t.Error("there is no key")
		}
	})
	t.Run("a mount of short lives", func(t *testing.T) {
		real.Script("vault secrets tune -max-lease-ttl=240h pki/demo/front-proxy-ca")
		warned := false
		for _, f := range s.Check(t.Context(), nil) {
			testkit.Must(t, f.Err)
			warned = warned || f.Warning && strings.Contains(f.Detail, "240h0m0s at most")
		}
		if !warned {
			t.Error("nothing is said of it")
		}
		signs(t, s)
		real.Script("vault secrets tune -max-lease-ttl=1h pki/demo/front-proxy-ca")
		testkit.Fails(t, s.Ready(t.Context(), nil), fail.Refused, "1h0m0s at most", "vault secrets tune")
		real.Script("vault secrets tune -max-lease-ttl=87600h pki/demo/front-proxy-ca")
	})
	t.Run("a young authority", func(t *testing.T) {
		real.Script(`vault secrets enable -path=young/kubernetes-ca pki
			vault write young/kubernetes-ca/root/generate/internal common_name=young ttl=700h
			vault write young/kubernetes-ca/roles/client client_flag=true not_before_duration=5m`)
		young := spec
		young.Mount, young.Auth = "young", byToken
		t.Setenv("VAULT_TOKEN", real.Root)
		err := testkit.Value(vault.New("demo", young, vault.Options{}))(t).Ready(t.Context(), nil)
		testkit.Fails(t, err, fail.NotFound, "young/etcd-ca", "would begin before its authority does")
	})
	t.Run("another default issuer", func(t *testing.T) {
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
		pinned := testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t)
		real.Script(`vault write pki/demo/kubernetes-ca/root/generate/internal common_name=other issuer_name=other not_before_duration=10m ttl=8760h
			vault write pki/demo/kubernetes-ca/config/issuers default=other`)
		testkit.Value(k.Leaf(t.Context(), leaves()[0]))(t)
		testkit.Must(t, s.Ready(t.Context(), map[string][]byte{pki.KubernetesCA: pinned}))
		real.Script("vault write pki/demo/kubernetes-ca/config/issuers default=naupegos")
	})
	t.Run("rotated twice", func(t *testing.T) {
		testkit.Must(t, os.WriteFile(file, []byte(strings.Join(approle, "\n")), 0o600)) // it signs in again after a refusal
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
		first := testkit.Value(k.CABundle(t.Context(), pki.EtcdCA))(t)
		have := map[string][]byte{pki.EtcdCA: first}
		t.Setenv(vault.RotationToken, "")
		testkit.Fails(t, s.MayRotate(t.Context(), have), fail.Unauthorized, "certs issuer demo --rotation")
		testkit.Fails(t, k.Prepare(t.Context(), pki.EtcdCA, 1), fail.Unauthorized, "certs issuer demo --rotation")
		t.Setenv(vault.RotationToken, strings.TrimSpace(real.Script(vault.RotationCommands("demo", spec))))
		turns(t, s, k, 1)
		turns(t, s, k, 2)
		for _, authority := range pki.Authorities() {
			mount := "pki/demo/" + authority
			if name := strings.TrimSpace(real.Script("vault read -field=issuer_name " + mount + "/issuer/default")); !strings.HasPrefix(name, "naupegos-") || name == "naupegos-next" {
				t.Errorf("the default issuer of %s is %s", mount, name)
			}
			signing := real.Script("for i in $(vault list -format=yaml " + mount + "/issuers | cut -c3-); do vault read -field=usage " + mount + "/issuer/$i; echo; done")
			if n := strings.Count(signing, "issuing-certificates"); n != 1 && authority != pki.KubernetesCA || n != 2 && authority == pki.KubernetesCA { // it has another one
				t.Errorf("%d issuers of %s sign: %s", n, mount, signing)
			}
		}
		testkit.Must(t, s.Ready(t.Context(), nil))
		signs(t, s)

		restored := &pkitest.MemorySecrets{} // a process that uses the first one again, after restoring a backup from before
		testkit.Must(t, restored.Put(t.Context(), "authority/"+pki.EtcdCA, first))
		k = pki.Open(restored, pki.Options{Issuer: s})
		leaf := pki.LeafSpec{Authority: pki.EtcdCA, CommonName: "jo", Client: true}
		_, err := k.Issue(t.Context(), leaf, time.Hour)
		testkit.Fails(t, err, fail.Refused, "may not sign certificates", "vault patch pki/demo/etcd-ca/issuer/")
		_, command, _ := strings.Cut(err.Error(), "vault patch ")
		command, _, _ = strings.Cut(command, " brings")
		real.Script("vault patch " + command) // the printed command repairs it
		testkit.Value(k.Issue(t.Context(), leaf, time.Hour))(t)
	})
	t.Run("sealed and gone", func(t *testing.T) {
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
		next := leaves()
		sign := func() error {
			_, err := k.Leaf(t.Context(), next[0])
			next = next[1:]
			return err
		}
		testkit.Must(t, sign())
		real.Seal()
		testkit.Fails(t, sign(), fail.NotReady, "sealed", "vault operator unseal")
		testkit.Fails(t, s.Ready(t.Context(), nil), fail.NotReady, "sealed")
		real.Unseal()
		testkit.Must(t, sign())
		real.Stop()
		testkit.Fails(t, sign(), fail.Unreachable, "no answer")
		testkit.Fails(t, s.Ready(t.Context(), nil), fail.Unreachable, "no answer")
		real.Run()
		testkit.Fails(t, sign(), fail.NotReady, "sealed")
		real.Unseal()
		testkit.Must(t, sign())
	})
}
