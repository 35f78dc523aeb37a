//go:build e2e

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sets "github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/testkit"
)

// backedUpCluster asserts that a backup of the living cluster contains the cluster's objects, and opens with the store's identity.
func backedUpCluster(t *testing.T, r *rig, _ *load) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backed-up", Namespace: "default"}, StringData: map[string]string{"word": "kept"}}
	testkit.Value(r.api().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}))(t)
	res := r.must(0, "backup", "create", r.name, "-o", "json")
	var made sets.Set
	testkit.Must(t, json.Unmarshal([]byte(res.stdout), &made))
	t.Logf("FIGURE a backup: %v, %d keys, %d bytes", res.took.Round(10*time.Millisecond), made.Etcd.Keys, made.Bytes)
	set := testkit.Value(sets.Open(t.Context(), sets.Directory(filepath.Join(r.state, "backups")), r.name, made.ID))(t)
	c := testkit.Value(set.Extract(t.Context(), testkit.Value(os.ReadFile(filepath.Join(r.state, "identity.age")))(t), sets.Trust{}, t.TempDir()))(t)
	count := map[string]int64{}
	for _, o := range c.Etcd.Objects {
		count[o.Kind] = o.Count
	}
	nodes := len(testkit.Value(r.api().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items)
	if count["minions"] != int64(nodes) || count["secrets"] == 0 || count["pods"] == 0 || c.BundleID == "" || len(c.Secrets["authority/etcd-ca"]) == 0 {
		t.Errorf("of %d nodes the set has %v, bundle %q, %d secrets", nodes, count, c.BundleID, len(c.Secrets))
	}
	if out := r.must(0, "backup", "list", r.name).stdout; !strings.Contains(out, made.ID) {
		t.Errorf("it is not listed:\n%s", out)
	}
}

// backupDies kills the creation of a backup before or after its only step, with -full at both, and then lets it finish. The list contains complete
// backups only.
func (r *rig) backupDies() {
	r.t.Helper()
	byHand := func() (n int) {
		for _, s := range r.listed() {
			if s.Reason != "on schedule" {
				n++
			}
		}
		return n
	}
	want := byHand()
	for _, at := range testkit.Sample(r.t, 1, []int{1, 2}) {
		r.killedAt(at, "backup", "create", r.name)
		if want += at - 1; byHand() != want {
			r.t.Errorf("killed at boundary %d of 2, there are %d backups, not %d", at, byHand(), want)
		}
	}
	r.must(0, "backup", "create", r.name)
	if want++; byHand() != want {
		r.t.Errorf("after a complete one, there are %d backups, want %d", byHand(), want)
	}
}
