//go:build e2e

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault/vaulttest"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestVault makes a cluster with authorities in a real Vault, set up with the commands that naupegos prints: only Vault has their keys, certificates
// are renewed, kubelets' too, only a special token can rotate authorities, and without Vault only operations that need it wait.
func TestVault(t *testing.T) {
	testkit.OnlyFull(t, "internal/cluster renders such a cluster by a Vault that is written by hand; the real one is compiled for ten minutes")
	testkit.Value(vaulttest.Program())(t)
	t.Parallel() // from here on, other tests have machines, which compilers would slow down
	v := vaulttest.Start(t)
	r := newRig(t, "vaulted")
	file := filepath.Join(r.dir, "credentials")
	issuer := fmt.Sprintf("  pki:\n    issuer:\n      vault:\n        address: %s\n        mount: pki/%s\n        auth: {method: appRole, credentialsFile: %s}\n", v.Address, r.name, file)
	r.document(size{controlPlanes: 3, workers: 1, gateways: 1, extra: issuer})
	testkit.Must(t, os.WriteFile(file, []byte("role_id=none\nsecret_id=none\n"), 0o600))
	if res := r.must(8, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stderr, "sign in by appRole") {
		t.Errorf("nothing is set up: %v", res)
	}
	var halves []string
	for line := range strings.Lines(v.Script(r.must(0, "certs", "issuer", "-f", r.file).stdout)) {
		if strings.HasPrefix(line, "role_id=") || strings.HasPrefix(line, "secret_id=") {
			halves = append(halves, line)
		}
	}
	testkit.Must(t, os.WriteFile(file, []byte(strings.Join(halves, "")), 0o600))
	r.must(0, "certs", "issuer", "-f", r.file, "--check")
	r.apply()
	r.healthy()
	r.must(0, "test", r.name)
	r.hasNoAuthorityKey(t)
	worker := machinesOf(r.status(), provider.Worker)[0].Name
	if out := r.look(worker, "ls /var/lib/kubelet/pki"); !strings.Contains(out, "kubelet-client.pem") || strings.Contains(out, "current") {
		t.Errorf("kubelet's certificates: %s", out)
	}
	r.renews(t, worker)
	r.vaultRotates(t, v)
	r.vaultGone(t, v, issuer)
}

// vaultRotates rotates everything under a client, which requires a special token. In Vault, the former issuers are read-only then.
func (r *rig) vaultRotates(t *testing.T, v *vaulttest.Server) {
	if res := r.must(8, "certs", "rotate", r.name, "--all", "--yes"); !strings.Contains(res.stderr, "VAULT_ROTATION_TOKEN") {
		t.Errorf("a rotation without a token for it: %v", res)
	}
	r.unchanged()
	env := r.inv.env
	token := strings.TrimSpace(v.Script(r.must(0, "certs", "issuer", r.name, "--rotation").stdout))
	r.inv.env = append(slices.Clone(env), "VAULT_ROTATION_TOKEN="+token)
	l := startLoad(t, r)
	keysRotate(t, r, l)
	l.end()
	r.inv.env = env
	for _, authority := range pki.Authorities() {
		mount := "pki/" + r.name + "/" + authority
		uses := v.Script("for i in $(vault list -format=yaml " + mount + "/issuers | cut -c3-); do vault read -field=usage " + mount + "/issuer/$i; echo; done")
		if strings.Count(uses, "read-only") != 2 || strings.Count(uses, "issuing-certificates") != 1 {
			t.Errorf("the issuers of %s are for %s", mount, uses)
		}
	}
	r.hasNoAuthorityKey(t)
	r.unchanged() // with the everyday login
}

// vaultGone stops Vault: the existing cluster is healthy and unchanged, and an interrupted apply that adds a machine continues later.
func (r *rig) vaultGone(t *testing.T, v *vaulttest.Server, issuer string) {
	v.Stop()
	r.healthy()
	r.must(0, "apply", "-f", r.file, "--yes")
	if res := r.must(7, "kubeconfig", r.name, "--user", "jo"); !strings.Contains(res.stderr, "no answer") {
		t.Errorf("a kubeconfig without Vault: %v", res)
	}
	quick := "  timeouts: {machineBoot: 2m, nodeReady: 2m, drain: 2m, step: 2m}\n"
	r.document(size{controlPlanes: 3, workers: 2, gateways: 1, extra: issuer + quick})
	if res := r.must(5, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stderr, "no answer") {
		t.Errorf("another machine without Vault: %v", res)
	}
	v.Run()
	v.Unseal()
	r.apply()
	r.healthy()
	r.hasNoAuthorityKey(t)
}

// hasNoAuthorityKey asserts that no private key in the store and on machines belongs to an authority.
func (r *rig) hasNoAuthorityKey(t *testing.T) {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: r.state}))(t)
	defer st.Close()
	rec := testkit.Value(st.Cluster(t.Context(), r.name))(t)
	found := map[string]string{} // PEM, by location
	var authorities []*x509.Certificate
	secrets := st.Secrets(rec.ID)
	for _, name := range testkit.Value(secrets.Names(t.Context()))(t) {
		value := testkit.Value(secrets.Get(t.Context(), name))(t)
		found["secret "+name] = string(value)
		if strings.HasPrefix(name, "authority/") {
			block, _ := pem.Decode(value)
			authorities = append(authorities, testkit.Value(x509.ParseCertificate(block.Bytes))(t))
		}
	}
	for _, m := range slices.Concat(machinesOf(r.status(), provider.ControlPlane), machinesOf(r.status(), provider.Worker)) {
		found[m.Name] = r.look(m.Name, "grep -rlI 'PRIVATE KEY-----' /etc /var/lib/kubelet /var/lib/naupegos 2>/dev/null | xargs -r cat; true")
	}
	keys := 0
	for where, text := range found {
		for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
			if !strings.Contains(block.Type, "PRIVATE KEY") || strings.Contains(block.Type, "OPENSSH") {
				continue
			}
			keys++
			for _, ca := range authorities {
				if _, err := tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), pem.EncodeToMemory(block)); err == nil {
					t.Errorf("%s: the key of authority %s", where, ca.Subject)
				}
			}
		}
	}
	if len(authorities) != len(pki.Authorities()) || keys < 20 {
		t.Errorf("%d authorities and %d keys were looked at: is that all?", len(authorities), keys)
	}
}
