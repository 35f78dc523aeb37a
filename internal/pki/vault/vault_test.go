package vault_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
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

func leaves() []pki.LeafSpec {
	nodes := []string{"system:nodes"}
	return []pki.LeafSpec{
		{Name: "cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true, DNSNames: []string{"cp-1", "kubernetes.default.svc"}, IPs: []net.IP{net.ParseIP("10.0.0.1")}},
		{Name: "cp-1/scheduler", Authority: pki.KubernetesCA, CommonName: "system:kube-scheduler", Client: true},
		{Name: "cp-1/kubelet-client", Authority: pki.KubernetesCA, CommonName: "system:node:cp-1", Organizations: nodes, Client: true},
		{Name: "cp-1/kubelet-server", Authority: pki.KubernetesCA, CommonName: "system:node:cp-1", Organizations: nodes, Server: true, DNSNames: []string{"cp-1"}, IPs: []net.IP{net.ParseIP("10.0.0.1")}},
		{Name: "super-admin", Authority: pki.KubernetesCA, CommonName: "naupegos-super-admin", Organizations: []string{"system:masters"}, Client: true},
		{Name: "admin", Authority: pki.KubernetesCA, CommonName: "naupegos-admin", Organizations: []string{"kubeadm:cluster-admins"}, Client: true},
		{Name: "cp-1/etcd-peer", Authority: pki.EtcdCA, CommonName: "cp-1", Server: true, Client: true, DNSNames: []string{"cp-1", "localhost"}, IPs: []net.IP{net.ParseIP("10.0.0.1"), net.IPv6loopback}},
		{Name: "cp-1/etcd-client", Authority: pki.EtcdCA, CommonName: "kube-apiserver-etcd-client", Client: true},
		{Name: "cp-1/front-proxy-client", Authority: pki.FrontProxyCA, CommonName: "front-proxy-client", Client: true},
	}
}

// signs lets every kind of certificate be signed and checks that the store has no keys of authorities.
func signs(t *testing.T, s *vault.Server) {
	t.Helper()
	secrets := &pkitest.MemorySecrets{}
	k := pki.Open(secrets, pki.Options{Issuer: s})
	testkit.Must(t, k.Ensure(t.Context()))
	for _, l := range leaves() {
		if _, err := k.Leaf(t.Context(), l); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
	}
	for _, name := range testkit.Value(secrets.Names(t.Context()))(t) {
		value := string(testkit.Value(secrets.Get(t.Context(), name))(t))
		if strings.HasPrefix(name, "authority/") && strings.Contains(value, "PRIVATE KEY") {
			t.Errorf("%s holds a key", name)
		}
	}
	for _, i := range testkit.Value(k.List(t.Context()))(t) {
		if !i.CA && (i.Authority == "" || time.Until(i.RenewAt) < 24*time.Hour) {
			t.Errorf("%s is of authority %q and due at %s", i.Name, i.Authority, i.RenewAt)
		}
	}
}

func ready(t *testing.T) (*vaulttest.Fake, *vault.Server) {
	t.Helper()
	f := vaulttest.NewFake(t)
	f.Run(vault.Commands("demo", f.Spec))
	return f, testkit.Value(vault.New("demo", f.Spec, vault.Options{}))(t)
}

func TestSigns(t *testing.T) {
	_, s := ready(t)
	testkit.Must(t, s.Ready(t.Context(), nil))
	signs(t, s)
}

func TestCommands(t *testing.T) {
	for name, auth := range map[string]v1alpha1.VaultAuth{
		"token": {Method: v1alpha1.VaultToken}, "approle": {Method: v1alpha1.VaultAppRole, Mount: "machines"}, "kubernetes": {Method: v1alpha1.VaultKubernetes, Role: "r"},
	} {
		spec := v1alpha1.Vault{Address: "https://vault.example.org:8200", Mount: "pki/demo", Namespace: "team-a", Auth: auth}
		testkit.Golden(t, "commands-"+name+".golden", vault.Commands("demo", spec))
	}
}

// TestLacks removes or breaks one requirement at a time: the check reports it and says what to do.
func TestLacks(t *testing.T) {
	const ca = "pki/demo/kubernetes-ca"
	for name, c := range map[string]struct {
		do    func(*vaulttest.State)
		kind  fail.Kind
		words []string
	}{
		"sealed":       {func(s *vaulttest.State) { s.Sealed = true }, fail.NotReady, []string{"sealed", "vault operator unseal"}},
		"clock":        {func(s *vaulttest.State) { s.Clock = -5 * time.Minute }, fail.Refused, []string{"clock differs from this host's by 5m"}},
		"no token":     {func(s *vaulttest.State) { clear(s.Tokens) }, fail.Unauthorized, []string{"permission denied", "--policy"}},
		"no mount":     {func(s *vaulttest.State) { delete(s.Mounts, ca) }, fail.NotFound, []string{"no PKI secrets engine at " + ca, "naupegos certs issuer demo"}},
		"no role":      {func(s *vaulttest.State) { delete(s.Roles, ca+"/roles/server") }, fail.Refused, []string{"no role server: vault write " + ca + "/roles/server client_flag=false"}},
		"other group":  {func(s *vaulttest.State) { s.Roles[ca+"/roles/client-system-nodes"]["organization"] = []string{"x"} }, fail.Refused, []string{"organization is x", "vault write"}},
		"other usage":  {func(s *vaulttest.State) { s.Roles[ca+"/roles/server"]["client_flag"] = true }, fail.Refused, []string{"client_flag is true"}},
		"hostnames":    {func(s *vaulttest.State) { s.Roles[ca+"/roles/client"]["enforce_hostnames"] = true }, fail.Refused, []string{"enforce_hostnames"}},
		"no right":     {func(s *vaulttest.State) { s.Forbid = "/sign/client-system-masters" }, fail.Unauthorized, []string{"may not write", "--policy"}},
		"short life":   {func(s *vaulttest.State) { s.Longest = time.Hour }, fail.Refused, []string{"live 1h0m0s at most", "vault secrets tune"}},
		"short role":   {func(s *vaulttest.State) { s.Roles["pki/demo/etcd-ca/roles/peer"]["max_ttl"] = 60 }, fail.Refused, []string{"pki/demo/etcd-ca", "live 1m0s at most"}},
		"two of these": {func(s *vaulttest.State) { s.Mounts, s.Forbid = map[string]bool{ca: true}, "/sign/server" }, fail.NotFound, []string{"etcd-ca", "front-proxy-ca", "may not write"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := ready(t)
			f.Change(c.do)
			testkit.Fails(t, s.Ready(t.Context(), nil), c.kind, c.words...)
		})
	}
	t.Run("gone", func(t *testing.T) {
		f, s := ready(t)
		f.Stop()
		testkit.Fails(t, s.Ready(t.Context(), nil), fail.Unreachable, "Vault at http://127.0.0.1", "no answer")
	})
	t.Run("another authority", func(t *testing.T) {
		_, s := ready(t)
		other := pkitest.NewAuthority(t).PEM()
		testkit.Fails(t, s.Ready(t.Context(), map[string][]byte{pki.KubernetesCA: other}), fail.Refused, "none of the 1 issuers", "built with")
	})
}

// TestWarns: setups that work now but may soon fail cause warnings.
func TestWarns(t *testing.T) {
	f, s := ready(t)
	f.Change(func(s *vaulttest.State) { s.Longest = 10 * 24 * time.Hour })
	said := ""
	for _, finding := range s.Check(t.Context(), nil) {
		testkit.Must(t, finding.Err)
		if finding.Warning {
			said += finding.Detail + "\n"
		}
	}
	for _, words := range []string{"the token ends in 1h0m", "certificates live 240h0m0s at most"} {
		if !strings.Contains(said, words) {
			t.Errorf("%q is not said:\n%s", words, said)
		}
	}
	signs(t, s)
}

func TestRefusedToSign(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*vaulttest.State)
		kind  fail.Kind
		words []string
	}{
		"no such role": {func(s *vaulttest.State) { clear(s.Roles) }, fail.NotFound, []string{"no role client-team-a", "vault write pki/demo/kubernetes-ca/roles/client-team-a", "organization=team-a"}},
		"forbidden":    {func(s *vaulttest.State) { s.Forbid = "/sign/client-team-a" }, fail.Unauthorized, []string{"may not sign by role client-team-a"}},
		"sealed":       {func(s *vaulttest.State) { s.Sealed = true }, fail.NotReady, []string{"sealed"}},
		"expired":      {func(s *vaulttest.State) { clear(s.Tokens) }, fail.Unauthorized, []string{"permission denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := ready(t)
			k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Issuer: s})
			testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t)
			f.Change(c.do)
			_, err := k.Issue(t.Context(), pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "jo", Organizations: []string{"team-a"}, Client: true}, time.Hour)
			testkit.Fails(t, err, c.kind, c.words...)
		})
	}
}

func TestSignsIn(t *testing.T) {
	f, _ := ready(t)
	file := filepath.Join(t.TempDir(), "vault")
	by := func(method string) *vault.Server {
		spec := f.Spec
		spec.Auth = v1alpha1.VaultAuth{Method: method, CredentialsFile: file}
		return testkit.Value(vault.New("demo", spec, vault.Options{}))(t)
	}
	ask := func(s *vault.Server) error { _, err := s.Authority(t.Context(), pki.KubernetesCA); return err }

	testkit.Fails(t, ask(by(v1alpha1.VaultToken)), fail.Unauthorized, "no such file")
	testkit.Must(t, os.WriteFile(file, []byte("hvs.fake\n"), 0o644))
	testkit.Fails(t, ask(by(v1alpha1.VaultToken)), fail.Unauthorized, "others can read it", "chmod 600 "+file)
	testkit.Must(t, os.Chmod(file, 0o600))
	testkit.Must(t, ask(by(v1alpha1.VaultToken)))

	testkit.Fails(t, ask(by(v1alpha1.VaultAppRole)), fail.Unauthorized, "role_id=…")
	testkit.Must(t, os.WriteFile(file, []byte("role_id=the-role\nsecret_id=other\n"), 0o600))
	testkit.Fails(t, ask(by(v1alpha1.VaultAppRole)), fail.Unauthorized, "invalid role or secret ID", "expired")
	testkit.Must(t, os.WriteFile(file, []byte("role_id=the-role\nsecret_id=the-secret\n"), 0o600))
	s := by(v1alpha1.VaultAppRole)
	before := f.Look().LoggedIn
	for range 3 {
		testkit.Must(t, ask(s))
	}
	if n := f.Look().LoggedIn - before; n != 1 {
		t.Errorf("it signed in %d times", n)
	}
	f.Change(func(s *vaulttest.State) { clear(s.Tokens) }) // the tokens were revoked
	testkit.Must(t, ask(s))
	f.Change(func(s *vaulttest.State) { clear(s.AppRole); clear(s.Tokens) })
	err := ask(s)
	testkit.Fails(t, err, fail.Unauthorized)
	if strings.Contains(err.Error(), "the-secret") {
		t.Errorf("the error shows the secret: %v", err)
	}
}

// TestRedirected: a server redirects a request, and the token does not follow.
func TestRedirected(t *testing.T) {
	f, _ := ready(t)
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	standby := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer standby.Close()
	spec := f.Spec
	spec.Address = standby.URL
	_, err := testkit.Value(vault.New("demo", spec, vault.Options{}))(t).Authority(t.Context(), pki.EtcdCA)
	testkit.Fails(t, err, fail.Refused, "it sends to another server", "active")
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestNamedCredential: the content of a credential signs in while the credential exists; a restricted host gives no access to its files and
// variables.
func TestNamedCredential(t *testing.T) {
	f, _ := ready(t) // $VAULT_TOKEN is set
	value, gone := "hvs.fake", error(nil)
	find := func(context.Context) ([]byte, error) { return []byte(value + "\n"), gone }
	ask := func(auth v1alpha1.VaultAuth, with vault.Options) (*vault.Server, error) {
		spec := f.Spec
		spec.Auth = auth
		s := testkit.Value(vault.New("demo", spec, with))(t)
		_, err := s.Authority(t.Context(), pki.KubernetesCA)
		return s, err
	}
	s, err := ask(v1alpha1.VaultAuth{Method: v1alpha1.VaultToken, Credential: "v"}, vault.Options{Credential: find, Closed: true})
	testkit.Must(t, err)
	value = "hvs.other"
	_, err = s.Authority(t.Context(), pki.KubernetesCA)
	testkit.Fails(t, err, fail.Unauthorized)
	value, gone = "hvs.fake", fail.New(fail.Unauthorized, "cluster demo has no credential v")
	_, err = s.Authority(t.Context(), pki.KubernetesCA)
	testkit.Fails(t, err, fail.Unauthorized, "cluster demo has no credential v")
	gone, value = nil, "role_id=the-role\nsecret_id=the-secret"
	_, err = ask(v1alpha1.VaultAuth{Method: v1alpha1.VaultAppRole, Credential: "v"}, vault.Options{Credential: find})
	testkit.Must(t, err)

	trap := filepath.Join(t.TempDir(), "trap")
	testkit.Must(t, syscall.Mkfifo(trap, 0o600)) // the reader hangs
	for _, auth := range []v1alpha1.VaultAuth{
		{Method: v1alpha1.VaultToken}, {Method: v1alpha1.VaultAppRole}, {Method: v1alpha1.VaultToken, CredentialsFile: trap}, {Method: v1alpha1.VaultToken, Credential: "v"},
	} {
		_, err := ask(auth, vault.Options{Closed: true})
		testkit.Fails(t, err, fail.Refused, "no credential signs in to Vault")
	}
	_, err = ask(v1alpha1.VaultAuth{Method: v1alpha1.VaultKubernetes, Role: "r", CredentialsFile: trap}, vault.Options{})
	testkit.Fails(t, err, fail.Unauthorized, "/var/run/secrets/kubernetes.io/serviceaccount/token")
}
