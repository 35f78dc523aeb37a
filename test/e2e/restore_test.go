//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sets "github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// newer matches the release in a manifest.
var newer = regexp.MustCompile(`"kubernetes": "[^"]*"`)

// restoredKind is the custom resource of TestRestore.
const restoredKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sails.test.naupegos.dev}
spec:
  group: test.naupegos.dev
  scope: Namespaced
  names: {plural: sails, kind: Sail}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// TestRestore destroys a cluster and rebuilds it from a rehearsed backup that one of its machines made on schedule: every object is unchanged, and
// old credentials still work. The restore is killed at a step boundary once, and continued by restore or apply.
func TestRestore(t *testing.T) {
	var server string
	if testkit.Full() {
		server = testkit.Value(testkit.Released(t.TempDir(), testkit.S3Server))(t)
	}
	t.Parallel() // from here on, other tests have machines, which compilers would slow down
	r := newRig(t, "restore")
	s, n, at := size{controlPlanes: 1, workers: 1, gateways: 1}, 34, directory(t, r.dir)
	if testkit.Full() {
		s, n, at = size{controlPlanes: 3, gateways: 1}, 334, bucket(t, server, r.dir)
	}
	s.extra = "  backup:\n" + at.spec
	r.document(s)
	r.apply()
	before := r.fill(n)
	old := r.kubeconfig()
	token, err := clientOf(t, old).ServiceAccountToken(t.Context(), "kept", "default")
	testkit.Must(t, err)

	r.backupDies()
	var made sets.Set
	if testkit.Full() {
		made = r.madeOnSchedule()
	} else {
		made = r.madeAtOnce(r.name+"-cp-1", at)
	}
	res := r.must(0, "backup", "rehearse", r.name, made.ID, "-o", "json")
	var proof struct {
		Set              string
		Objects, Secrets int
		Seconds          float64
	}
	if err := json.Unmarshal([]byte(res.stdout), &proof); err != nil || proof.Set != made.ID || proof.Secrets < n || proof.Objects < 3*n {
		t.Fatalf("proven is %+v: %v: %v", proof, err, res)
	}
	t.Logf("FIGURE rehearsal of %d objects: %.1f s", proof.Objects, proof.Seconds)
	if res := r.must(0, "status", r.name); !strings.Contains(res.stdout, "proven") || strings.Contains(res.stdout, "none is proven") || strings.Contains(res.stdout, "OVERDUE") {
		t.Errorf("status does not show the proven backup: %v", res)
	}
	r.refusesBadSets(proof.Set, at.sets)
	if testkit.Full() {
		r.putsBack(proof.Set, before)
	}
	r.destroy()

	args := []string{"backup", "restore", r.name, "--from", proof.Set, "-f", r.file, "--yes"}
	boundary := 1 + testkit.Rand(t).IntN(30)
	died := r.killedAt(boundary, args...)
	again := testkit.Sample(t, 1, [][]string{args, {"apply", "-f", r.file, "--yes"}})[0]
	began := time.Now()
	r.must(0, again...)
	t.Logf("FIGURE restore of %d objects: %v until it was killed at boundary %d, then %v by %s", proof.Objects,
		died.took.Round(100*time.Millisecond), boundary, time.Since(began).Round(100*time.Millisecond), again[0])

	after := r.kept(clientOf(t, old)) // with the old kubeconfig
	for key, digest := range before {
		if after[key] != digest {
			t.Errorf("%s is not what it was", key)
		}
	}
	t.Logf("FIGURE %d objects are what they were, by digest", len(before))
	if user, err := clientOf(t, old).TokenUser(t.Context(), token); err != nil || user != "system:serviceaccount:kept:default" {
		t.Errorf("a token from before is %q: %v", user, err)
	}
	r.sameCluster(s)
	if left, err := filepath.Glob(filepath.Join(r.state, "restoring", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	r.passesItsTest(t)
	r.destroy()
}

// fill creates n Secrets, ConfigMaps and custom resources each in namespace kept, and returns digests of the namespace's objects.
func (r *rig) fill(n int) map[string]string {
	r.t.Helper()
	client := clientOf(r.t, r.kubeconfig())
	apply := func(manifests string) error {
		_, err := client.Apply(r.t.Context(), []byte(manifests), kube.ApplyOptions{})
		return err
	}
	testkit.Must(r.t, apply(restoredKind+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kept}\n"))
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s%d, namespace: kept}\nstringData: {word: w%d}\n", i, i)
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: kept}\ndata: {word: w%d}\n", i, i)
		fmt.Fprintf(&all, "---\napiVersion: test.naupegos.dev/v1\nkind: Sail\nmetadata: {name: c%d, namespace: kept}\nspec: {area: %d}\n", i, i)
	}
	until(r.t, time.Minute, time.Second, func() error { return apply(all.String()) }) // the API must know the kind first
	until(r.t, time.Minute, time.Second, func() error {
		_, err := r.api().CoreV1().ServiceAccounts("kept").Get(r.t.Context(), "default", metav1.GetOptions{})
		return err
	})
	kept := r.kept(client)
	if len(kept) < 3*n {
		r.t.Fatalf("only %d objects were made", len(kept))
	}
	return kept
}

// kept returns digests of the objects in namespace kept, except objects that come and go by themselves.
func (r *rig) kept(client *kube.Client) map[string]string {
	r.t.Helper()
	all := map[string]string{}
	_, err := client.Census(r.t.Context(), func(o kube.Counted) error {
		if o.Object.GetNamespace() == "kept" && o.Resource != "events" {
			all[o.Key] = fmt.Sprintf("%x", o.Digest)
		}
		return nil
	})
	testkit.Must(r.t, err)
	return all
}

func clientOf(t testing.TB, kubeconfig []byte) *kube.Client {
	t.Helper()
	c, err := kube.NewClient(kubeconfig, kube.ClientOptions{})
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// refusesBadSets: a living cluster is not restored, and a damaged set is not proven.
func (r *rig) refusesBadSets(id, sets string) {
	r.t.Helper()
	r.must(4, "backup", "restore", r.name, "--from", id, "--yes")
	from := filepath.Join(sets, r.name, id)
	right, wrong := filepath.Join(r.t.TempDir(), "right"), filepath.Join(r.t.TempDir(), "wrong")
	testkit.Must(r.t, os.WriteFile(right, []byte("correct horse battery staple\n"), 0o600))
	testkit.Must(r.t, os.WriteFile(wrong, []byte("another word\n"), 0o600))
	r.must(0, "backup", "key", r.name, "--passphrase-file", right)
	key, err := os.ReadFile(filepath.Join(sets, r.name, "key.age"))
	testkit.Must(r.t, err)
	whole, err := os.ReadFile(filepath.Join(from, "set.age"))
	testkit.Must(r.t, err)
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	stranger := filepath.Join(r.t.TempDir(), "identity")
	testkit.Must(r.t, os.WriteFile(stranger, []byte("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n"), 0o600))
	manifest, err := os.ReadFile(filepath.Join(from, "manifest.json"))
	testkit.Must(r.t, err)
	signature, err := os.ReadFile(filepath.Join(from, "manifest.sig"))
	testkit.Must(r.t, err)
	for what, bad := range map[string]struct {
		set, manifest []byte
		more          []string
		code          int
	}{
		"another word":    {whole, manifest, []string{"--passphrase-file", wrong}, 8},
		"a newer release": {whole, newer.ReplaceAll(manifest, []byte(`"kubernetes": "v1.99.0"`)), nil, 4},
		"truncated":       {whole[:len(whole)/2], manifest, nil, 3},
		"a flipped bit":   {flipped, manifest, nil, 3},
		"another's key":   {whole, manifest, []string{"--identity-file", stranger}, 8},
		"another cluster": {whole, []byte(strings.ReplaceAll(string(manifest), `"cluster": "`+r.name, `"cluster": "other`)), nil, 4},
	} {
		dir := r.t.TempDir()
		at := filepath.Join(dir, r.name, id)
		testkit.Must(r.t, os.MkdirAll(at, 0o700))
		testkit.Must(r.t, os.WriteFile(filepath.Join(at, "set.age"), bad.set, 0o600))
		testkit.Must(r.t, os.WriteFile(filepath.Join(at, "manifest.json"), bad.manifest, 0o600))
		testkit.Must(r.t, os.WriteFile(filepath.Join(at, "manifest.sig"), signature, 0o600))
		testkit.Must(r.t, os.WriteFile(filepath.Join(dir, r.name, "key.age"), key, 0o600))
		res := r.must(bad.code, append([]string{"backup", "rehearse", r.name, id, "--to", dir}, bad.more...)...)
		r.t.Logf("%s: %s", what, strings.TrimSpace(res.stderr))
	}
}

// putsBack restores a set into the living cluster: objects changed, created and deleted since are as they were then, pods that no longer exist end,
// and the cluster serves.
func (r *rig) putsBack(id string, before map[string]string) {
	r.t.Helper()
	const since = "apiVersion: v1\nkind: Namespace\nmetadata: {name: since}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c0, namespace: kept}\ndata: {word: changed}\n"
	client := clientOf(r.t, r.kubeconfig())
	_, err := client.Apply(r.t.Context(), []byte(since), kube.ApplyOptions{})
	testkit.Must(r.t, err)
	testkit.Must(r.t, r.api().CoreV1().Secrets("kept").Delete(r.t.Context(), "s1", metav1.DeleteOptions{}))
	list, err := r.api().CoreV1().ConfigMaps("kept").List(r.t.Context(), metav1.ListOptions{Limit: 1})
	testkit.Must(r.t, err)
	began := time.Now()
	r.must(0, "backup", "restore", r.name, "--from", id, "--consent", "replace-data", "--yes")
	r.t.Logf("FIGURE a living cluster is put back in %v", time.Since(began).Round(100*time.Millisecond))
	after := r.kept(clientOf(r.t, r.kubeconfig()))
	for key, digest := range before {
		if after[key] != digest {
			r.t.Errorf("%s is not what it was", key)
		}
	}
	if len(after) != len(before) {
		r.t.Errorf("there are %d objects, not %d", len(after), len(before))
	}
	if _, err := r.api().CoreV1().Namespaces().Get(r.t.Context(), "since", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		r.t.Errorf("objects created since then still exist: %v", err)
	}
	now, err := r.api().CoreV1().ConfigMaps("kept").List(r.t.Context(), metav1.ListOptions{Limit: 1})
	testkit.Must(r.t, err)
	was, is := testkit.Value(strconv.ParseInt(list.ResourceVersion, 10, 64))(r.t), testkit.Value(strconv.ParseInt(now.ResourceVersion, 10, 64))(r.t)
	if is < was+1_000_000_000 {
		r.t.Errorf("revisions have gone from %d to %d", was, is)
	}
	r.must(0, "apply", "-f", r.file, "--yes")
	r.healthy()
}
