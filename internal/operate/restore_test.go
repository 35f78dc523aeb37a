package operate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// restoring plans a restore; with a verb it prepares one for execution.
func (s *site) restoring(t *testing.T, a Asked, verb string) (*Begun, error) {
	t.Helper()
	a.Verb = restoreBackup
	return Begin(t.Context(), testkit.Value(store.Open(t.Context(), s.at))(t), a, Options{
		Verb: verb, ReadOnly: true, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil },
		Bundle: func(context.Context, *v1alpha1.Cluster, string, string) (*bundle.Bundle, *bundle.Bundle, error) {
			return &bundle.Bundle{}, &bundle.Bundle{}, nil
		},
	})
}

// TestRestorePlans: the plan of a restore is reproducible, so that an agreement by digest matches; it names the backup, gives up no data without
// consent, and leaves neither a cluster nor decrypted files.
func TestRestorePlans(t *testing.T) {
	s := newSite(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	set := s.backedUp(t, time.Now().Add(-time.Hour), release.Default)
	latest := Asked{Cluster: "demo", Backup: backup.Latest}
	refused := func(a Asked, kind fail.Kind, words string) {
		t.Helper()
		b, err := s.restoring(t, a, "")
		if err == nil {
			testkit.Must(t, b.Close())
		}
		testkit.Fails(t, err, kind, words)
	}
	refused(Asked{Cluster: "demo"}, fail.Invalid, "no backup is given")
	refused(Asked{Cluster: "copy", Backup: backup.Latest, Restore: &Restore{Of: "demo"}}, fail.Invalid, "--of")
	refused(Asked{Cluster: "demo", Backup: backup.Latest, Restore: &Restore{New: true, Living: true}}, fail.Invalid, "exclude each other")
	refused(latest, fail.Refused, "cluster demo is alive")
	refused(Asked{Cluster: "demo", Backup: backup.Latest, Restore: &Restore{New: true}}, fail.Refused, "there is a cluster demo")
	refused(Asked{Cluster: "demo", Backup: backup.Latest, Document: strings.Replace(twoPools, "name: demo", "name: other", 1)}, fail.Invalid, "describes cluster other, not demo")

	st := testkit.Value(store.Open(t.Context(), s.at))(t)
	defer st.Close()
	id := testkit.Value(st.Cluster(t.Context(), "demo"))(t).ID
	another := Asked{Cluster: "copy", Backup: backup.Latest, Restore: &Restore{New: true, Of: "demo"}}
	plan := func(a Asked, wantID string) {
		t.Helper()
		b := testkit.Value(s.restoring(t, a, ""))(t)
		agreed, digest := b.Resolved(), testkit.Value(b.Digest())(t)
		if agreed.Backup != set.ID || b.First.Plan.Verb != restoreBackup || b.First.Plan.Empty() || b.Record.Name != a.Cluster || wantID != "" && b.Record.ID != wantID {
			t.Errorf("%+v of %s, %+v", agreed, b.Record.ID, b.First.Plan)
		}
		testkit.Must(t, b.Close())
		again := testkit.Value(s.restoring(t, agreed, ""))(t)
		if got := testkit.Value(again.Digest())(t); got != digest {
			t.Error("what was agreed to has another digest than what was planned")
		}
		testkit.Must(t, again.Close())
	}
	plan(another, "")
	testkit.Must(t, st.DeleteCluster(t.Context(), id))
	plan(latest, id)
	plan(another, "")

	// Execution proves the backup first: this one lacks keys of the cluster.
	_, err := s.restoring(t, latest, restoreBackup)
	testkit.Fails(t, err, fail.Refused, "lacks keys of the cluster")
	if all := testkit.Value(st.Clusters(t.Context()))(t); len(all) > 0 {
		t.Errorf("the store has %+v", all)
	}
	if left := testkit.Value(os.ReadDir(tmp))(t); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
}

// TestTaken: the digest of a release covers the keys and ignores regenerated files.
func TestTaken(t *testing.T) {
	files := map[string][]byte{"README.md": []byte("a"), "pki/ca.key": []byte("k"), "pki/ca.crt": []byte("c")}
	is := TakenOf(files)
	files["README.md"], files["kubeconfig"] = []byte("b"), []byte("new")
	if got := TakenOf(files); got != is {
		t.Errorf("%s, then %s", is, got)
	}
	files["pki/ca.key"] = []byte("another")
	if TakenOf(files) == is || TakenOf(nil) == is {
		t.Error("other keys are the same")
	}
}

// TestImportAsked: unusable import options are refused before any connection.
func TestImportAsked(t *testing.T) {
	for words, i := range map[string]*Import{
		"no control-plane host is given": nil,
		"--from":                         {Identity: "/key"},
		"--identity":                     {From: "192.0.2.1"},
		"no absolute path":               {From: "192.0.2.1", Identity: "key"},
		"is not a port":                  {From: "192.0.2.1", Identity: "/key", Port: 70000},
	} {
		a := Asked{Verb: importCluster, Cluster: "demo", Import: i}
		_, err := a.Name()
		testkit.Fails(t, err, fail.Invalid, words)
	}
}
