package store_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/testkit"
)

func cluster(t *testing.T, s store.Store, name string) *store.Cluster {
	t.Helper()
	return testkit.Value(s.CreateCluster(t.Context(), store.Cluster{Name: name, Provider: "local", Document: []byte("kind: Cluster\n")}))(t)
}

// inhabited creates a store with two clusters, secrets, a released lease, and a run.
func inhabited(t *testing.T, at store.Location) {
	t.Helper()
	ctx := t.Context()
	s := testkit.Value(store.Open(ctx, at))(t)
	defer s.Close()
	c := cluster(t, s, "demo")
	cluster(t, s, "other")
	gone := cluster(t, s, "gone")
	testkit.Must(t, s.DeleteCluster(ctx, gone.ID))
	for _, name := range []string{"ca", "key"} {
		testkit.Must(t, s.Secrets(c.ID).Put(ctx, name, []byte("PLANTED "+name)))
	}
	l := testkit.Value(s.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}))(t)
	p := &plan.Plan{Verb: "apply", Cluster: "demo"}
	for i := range 450 { // more than one statement can write
		p.Steps = append(p.Steps, &plan.Step{ID: strings.Repeat("x", i+1), Action: plan.Create, Title: "make it"})
	}
	j := s.Journal(c.ID)
	id := testkit.Value(j.Begin(ctx, p, map[string]string{"version": "v1"}))(t)
	testkit.Must(t, j.Step(ctx, id, "x", plan.Succeeded, time.Now(), ""))
	testkit.Must(t, j.End(ctx, id, plan.OutcomeSucceeded, nil))
	testkit.Must(t, l.Release(ctx))
}

// content is everything that a store contains, except times.
type content struct {
	Clusters []store.Cluster
	Secrets  map[string]string
	Runs     []plan.RunRecord
	NextGone string
}

func contentOf(t *testing.T, at store.Location) (c content) {
	t.Helper()
	ctx := t.Context()
	s := testkit.Value(store.Open(ctx, at))(t)
	defer s.Close()
	c.Clusters, c.Secrets = testkit.Value(s.Clusters(ctx))(t), map[string]string{}
	for _, k := range c.Clusters {
		x := s.Secrets(k.ID)
		for _, name := range testkit.Value(x.Names(ctx))(t) {
			c.Secrets[k.Name+"/"+name] = string(testkit.Value(x.Get(ctx, name))(t))
		}
	}
	c.Runs = testkit.Value(s.Runs(ctx, "", 0))(t)
	c.NextGone = testkit.Value(s.NextID(ctx, "gone", ""))(t)
	return c
}

// moves moves a store to another place and back, and checks that everything is there.
func moves(t *testing.T, home, away store.Location) {
	ctx := t.Context()
	inhabited(t, home)
	want := contentOf(t, home)
	if len(want.Runs) != 1 || len(want.Runs[0].Steps) != 450 || len(want.Secrets) != 2 {
		t.Fatalf("the store has %d runs and the secrets %v", len(want.Runs), want.Secrets)
	}
	done := testkit.Value(store.Move(ctx, home, away, false))(t)
	if len(done.Clusters) != 2 || done.Clusters[0].Name != "demo" {
		t.Errorf("moved were %+v", done)
	}
	if d := cmp.Diff(want, contentOf(t, away)); d != "" {
		t.Errorf("what was moved differs: %s", d)
	}
	_, err := store.Open(ctx, home)
	testkit.Fails(t, err, fail.Refused, "was moved to "+done.To, "--store")
	_, err = store.Move(ctx, home, away, false)
	testkit.Fails(t, err, fail.Refused, "was moved")
	_, err = store.Move(ctx, away, away, false)
	testkit.Fails(t, err, fail.Invalid, "already")

	s := testkit.Value(store.Open(ctx, away))(t)
	demo := testkit.Value(s.Cluster(ctx, "demo"))(t)
	l := testkit.Value(s.AcquireLease(ctx, demo.ID, "apply", store.LeaseOptions{}))(t)
	if l.Generation() < 3 {
		t.Errorf("the lease is number %d after a move: an older one may be out there", l.Generation())
	}
	_, err = store.Move(ctx, away, home, false)
	testkit.Fails(t, err, fail.Conflict, "apply is running")
	testkit.Must(t, l.Release(ctx))
	testkit.Must(t, s.SaveCluster(ctx, demo))
	testkit.Must(t, s.Close())

	want = contentOf(t, away)
	testkit.Value(store.Move(ctx, away, home, false))(t) // over a store that was itself moved away
	if d := cmp.Diff(want, contentOf(t, home)); d != "" {
		t.Errorf("what came back differs: %s", d)
	}
}

func TestMove(t *testing.T) {
	moves(t, store.Location{Dir: filepath.Join(t.TempDir(), "a")}, store.Location{Dir: filepath.Join(t.TempDir(), "b")})
}

// TestMoveHasNobodyWriteBehind: a process that opened the store before the move can no longer write to it.
func TestMoveHasNobodyWriteBehind(t *testing.T) {
	ctx, home := t.Context(), store.Location{Dir: t.TempDir()}
	inhabited(t, home)
	s := testkit.Value(store.Open(ctx, home))(t)
	defer s.Close()
	c := testkit.Value(s.Cluster(ctx, "demo"))(t)
	testkit.Value(store.Move(ctx, home, store.Location{Dir: t.TempDir()}, false))(t)
	_, err := s.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{})
	testkit.Fails(t, err, fail.Refused, "was moved")
	_, err = s.CreateCluster(ctx, store.Cluster{Name: "new"})
	testkit.Fails(t, err, fail.Refused, "was moved")
}

// restores restores a backup in another place, and checks that it is complete and notes the time of the backup.
func restores(t *testing.T, home, away store.Location, seal, open archive.Key) {
	ctx := t.Context()
	inhabited(t, home)
	want := contentOf(t, home)
	var file bytes.Buffer
	began := time.Now().Truncate(time.Second)
	if all := testkit.Value(store.Backup(ctx, home, &file, seal))(t); len(all) != 2 {
		t.Errorf("backed up were %+v", all)
	}
	for _, secret := range []string{"PLANTED", "AGE-SECRET", "kind: Cluster"} {
		if bytes.Contains(file.Bytes(), []byte(secret)) {
			t.Errorf("the backup holds %q in plain", secret)
		}
	}
	done := testkit.Value(store.Restore(ctx, away, bytes.NewReader(file.Bytes()), open, false))(t)
	if len(done.Clusters) != 2 || len(done.Newer) != 0 || done.Made.Before(began) || done.Made.After(time.Now()) {
		t.Errorf("restored was %+v", done)
	}
	got := contentOf(t, away)
	for i := range got.Clusters {
		if made := got.Clusters[i].Facts[store.Fact{Kind: store.FactRestored}]; made != done.Made.Format(time.RFC3339) {
			t.Errorf("the cluster says that it was restored from %q", made)
		}
		delete(got.Clusters[i].Facts, store.Fact{Kind: store.FactRestored})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what was restored differs: %s", d)
	}
	refusals(t, home, away, file.Bytes(), open)
}

// refusals tries harmful restores: away has the backup, home is its origin.
func refusals(t *testing.T, home, away store.Location, file []byte, open archive.Key) {
	ctx := t.Context()
	_, err := store.Restore(ctx, home, bytes.NewReader(file), open, false)
	testkit.Fails(t, err, fail.Refused, "demo, other", "--replace")

	s := testkit.Value(store.Open(ctx, away))(t)
	demo := testkit.Value(s.Cluster(ctx, "demo"))(t)
	testkit.Must(t, s.SaveCluster(ctx, demo)) // later than the backup
	cluster(t, s, "later")
	l := testkit.Value(s.AcquireLease(ctx, demo.ID, "apply", store.LeaseOptions{}))(t)
	_, err = store.Restore(ctx, away, bytes.NewReader(file), open, true)
	testkit.Fails(t, err, fail.Conflict, "apply is running")
	testkit.Must(t, l.Release(ctx))
	testkit.Must(t, s.Close())
	before := l.Generation()
	done := testkit.Value(store.Restore(ctx, away, bytes.NewReader(file), open, true))(t)
	if len(done.Newer) != 2 || done.Newer[0].Name != "demo" || done.Newer[1].Name != "later" || done.Aside != "" {
		t.Errorf("known better before: %+v", done)
	}
	s = testkit.Value(store.Open(ctx, away))(t)
	defer s.Close()
	l = testkit.Value(s.AcquireLease(ctx, demo.ID, "apply", store.LeaseOptions{}))(t)
	if l.Generation() <= before {
		t.Errorf("the lease is number %d, and number %d may be out there", l.Generation(), before)
	}
	testkit.Must(t, l.Release(ctx))
	_, err = s.CreateCluster(ctx, store.Cluster{ID: done.Newer[1].ID, Name: "later"})
	testkit.Fails(t, err, fail.Conflict, "was destroyed")
}

func TestBackupToPassphrase(t *testing.T) {
	key := archive.Key{Passphrase: "correct horse", Work: 10}
	restores(t, store.Location{Dir: t.TempDir()}, store.Location{Dir: filepath.Join(t.TempDir(), "new")}, key, key)
}

// TestBackupToRecipients also restores over a new store with its own identity, which is kept.
func TestBackupToRecipients(t *testing.T) {
	id := testkit.Value(age.GenerateX25519Identity())(t)
	other := testkit.Value(age.GenerateX25519Identity())(t)
	seal := archive.Key{Recipients: []string{other.Recipient().String(), id.Recipient().String()}}
	home := store.Location{Dir: t.TempDir()}
	restores(t, home, store.Location{Dir: t.TempDir()}, seal, archive.Key{Identities: []byte("# mine\n" + id.String() + "\n")})

	fresh := store.Location{Dir: t.TempDir()}
	testkit.Must(t, testkit.Value(store.Open(t.Context(), fresh))(t).Close())
	old := testkit.Value(os.ReadFile(filepath.Join(fresh.Dir, store.IdentityFile)))(t)
	var file bytes.Buffer
	testkit.Value(store.Backup(t.Context(), home, &file, seal))(t)
	done := testkit.Value(store.Restore(t.Context(), fresh, &file, archive.Key{Identities: []byte(other.String())}, false))(t)
	if kept := testkit.Value(os.ReadFile(done.Aside))(t); !bytes.Equal(kept, old) {
		t.Error("the identity that was there is lost")
	}
	if got := contentOf(t, fresh); got.Secrets["demo/ca"] != "PLANTED ca" {
		t.Errorf("the secrets are %v", got.Secrets)
	}
	if left, _ := filepath.Glob(filepath.Join(fresh.Dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestBackupBadInput: a file that can't be opened or is not a backup changes nothing.
func TestBackupBadInput(t *testing.T) {
	ctx := context.Background()
	id := testkit.Value(age.GenerateX25519Identity())(t)
	home, key := store.Location{Dir: t.TempDir()}, archive.Key{Recipients: []string{id.Recipient().String()}, Identities: []byte(id.String())}
	_, err := store.Backup(ctx, store.Location{Dir: filepath.Join(t.TempDir(), "none")}, &bytes.Buffer{}, key)
	testkit.Fails(t, err, fail.NotFound, "no store")
	inhabited(t, home)
	for _, k := range []archive.Key{{}, {Recipients: []string{"age1nobody"}}, {Recipients: []string{"AGE-SECRET-KEY-1"}}} {
		_, err := store.Backup(ctx, home, &bytes.Buffer{}, k)
		testkit.Fails(t, err, fail.Invalid, "recipient")
	}
	var file bytes.Buffer
	testkit.Value(store.Backup(ctx, home, &file, key))(t)
	whole := file.Bytes()
	broken := bytes.Clone(whole)
	broken[len(broken)/2] ^= 1
	id = testkit.Value(age.GenerateX25519Identity())(t)
	for name, test := range map[string]struct {
		file []byte
		key  archive.Key
		kind fail.Kind
	}{
		"wrong passphrase": {whole, archive.Key{Passphrase: "wrong"}, fail.Unauthorized},
		"wrong identity":   {whole, archive.Key{Identities: []byte(id.String())}, fail.Unauthorized},
		"no identity":      {whole, archive.Key{Identities: []byte("hello")}, fail.Invalid},
		"cut off":          {whole[:len(whole)/2], key, fail.Invalid},
		"damaged":          {broken, key, fail.Invalid},
		"no backup":        {[]byte("hello"), key, fail.Invalid},
		"empty":            {nil, key, fail.Invalid},
	} {
		to := store.Location{Dir: t.TempDir()}
		_, err := store.Restore(ctx, to, bytes.NewReader(test.file), test.key, true)
		if fail.KindOf(err) != test.kind {
			t.Errorf("%s: %v, want %s", name, err, test.kind)
		}
		if got := contentOf(t, to); len(got.Clusters) > 0 {
			t.Errorf("%s: restored was %v", name, got)
		}
	}
}
