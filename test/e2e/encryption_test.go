//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/testkit"
)

const decrypted = "  security:\n    encryptionAtRest: false\n"

// encryptionChanges turns encryption at rest off and on, or rotates its key, with a Secret from before; make test samples one of the two. Each time
// all Secrets must be stored in etcd as configured, and be readable.
func (r *rig) encryptionChanges(t *testing.T, s size, cp string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}, StringData: map[string]string{"word": "unchanged"}}
	if _, err := r.api().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.secretsLie(t, cp, "k8s:enc:secretbox:v1:key1:")
	extra := s.extra
	for _, change := range testkit.Sample(t, 1, []string{"off and on", "rotate"}) {
		switch change {
		case "off and on":
			s.extra = extra + decrypted
			r.document(s)
			r.apply()
			r.secretsLie(t, cp, "k8s\x00\n") // first bytes of an unencrypted object in protobuf
			s.extra = extra
			r.document(s)
			r.apply()
			r.secretsLie(t, cp, "k8s:enc:secretbox:v1:key1:")
		case "rotate":
			older := r.backedUp()
			out := r.must(0, "certs", "rotate", r.name, "--encryption", "--yes").stdout
			if !strings.Contains(out, "encrypted with key2") {
				t.Errorf("it says:\n%s", out)
			}
			r.secretsLie(t, cp, "k8s:enc:secretbox:v1:key2:")
			if config := r.look(cp, "cat /etc/kubernetes/naupegos/encryption.yaml"); strings.Contains(config, "key1") {
				t.Error("API servers still have the former key")
			}
			// An older store does not have key2. It learns the key from the API servers, and takes no other key.
			elsewhere := r.restored(older)
			if res := elsewhere(0, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stderr, "encrypt all Secrets in etcd with key2") {
				t.Errorf("a store that is older than the cluster does\n%v", res)
			}
			r.secretsLie(t, cp, "k8s:enc:secretbox:v1:key2:")
			elsewhere(0, "plan", "-f", r.file)
		}
	}
	r.unchanged()
}

// secretsLie asserts that all Secrets are stored in etcd, which is a unit on cp, with values that begin with prefix, and that the Secret of
// encryptionChanges can be read.
func (r *rig) secretsLie(t *testing.T, cp, prefix string) {
	t.Helper()
	const etcdctl = "etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/healthcheck-client.crt " +
		"--key /etc/kubernetes/pki/etcd/healthcheck-client.key get "
	keys := strings.Fields(r.look(cp, etcdctl+"/registry/secrets/ --prefix --keys-only"))
	if len(keys) == 0 {
		t.Fatalf("etcd has no Secret")
	}
	for _, k := range keys {
		if v := r.look(cp, etcdctl+k+" --print-value-only"); !strings.HasPrefix(v, prefix) {
			t.Errorf("%s begins with %q, want %q", k, v[:min(len(v), 30)], prefix)
		}
	}
	s, err := r.api().CoreV1().Secrets("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || string(s.Data["word"]) != "unchanged" {
		t.Errorf("the Secret is %v: %v", s, err)
	}
}
