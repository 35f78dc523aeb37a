package operate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// signingKey signs the sets of tests: 32 zeros.
var signingKey = []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")

// backedUp makes a backup of the site's cluster. Its only secret is the signing key.
func (s *site) backedUp(t *testing.T, at time.Time, kubernetes string) *backup.Set {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), s.at))(t)
	defer st.Close()
	rec := testkit.Value(st.Cluster(t.Context(), "demo"))(t)
	to := []string{st.Recipient()}
	of := &backup.Operator{Document: rec.Document, Record: backup.Record{ID: rec.ID, Name: rec.Name, Provider: rec.Provider, Bundle: "b-1"}, Secrets: map[string][]byte{backup.SigningSecret: signingKey}}
	return testkit.Value(backup.Create(t.Context(), backup.Directory(filepath.Join(s.at.Dir, "backups")), backup.Source{
		About:    backup.Manifest{Cluster: "demo", ClusterID: rec.ID, Reason: "asked for", Kubernetes: kubernetes, Bundle: "b-1", Recipients: to},
		Operator: testkit.Value(of.Seal(to))(t), Now: func() time.Time { return at }, Sign: testkit.Value(backup.NewSigner(signingKey, st.Identity(), rec.ID))(t),
		Snapshot: func(_ context.Context, w io.Writer) (e backup.Etcd, err error) {
			data := bytes.Repeat([]byte("etcd"), 1024)
			sum := sha256.Sum256(data)
			_, err = w.Write(append(data, sum[:]...))
			return e, err
		},
	}))(t)
}

// TestWhichIsRehearsed: without a name, the newest backup of this cluster unless it is proven; with a name, that backup.
func TestWhichIsRehearsed(t *testing.T) {
	s := newSite(t)
	asked := Asked{Verb: Rehearse, Cluster: "demo"}
	_, err := s.begin(t, asked, "")
	testkit.Fails(t, err, fail.NotFound, "naupegos backup create demo")
	begin := func(name, want string, idle bool) {
		t.Helper()
		asked.Backup = name
		b := testkit.Value(s.begin(t, asked, ""))(t)
		defer b.Close()
		if got := b.Resolved().Backup; got != want || b.Idle != idle {
			t.Errorf("%q: %s, idle: %v", name, got, b.Idle)
		}
	}
	noon := time.Now().Add(-time.Hour)
	old := s.backedUp(t, noon, release.Default)
	begin("", old.ID, false)
	testkit.Must(t, old.Prove(t.Context(), signingKey, "test", noon))
	begin("", old.ID, true)
	begin(old.ID, old.ID, false)
	newer := s.backedUp(t, noon.Add(time.Minute), release.Default)
	begin("", newer.ID, false)
	begin(backup.Latest, newer.ID, false)
	begin(old.ID, old.ID, false)
	for name, kind := range map[string]fail.Kind{"yesterday": fail.Invalid, "20261123T211500Z-0000": fail.NotFound} {
		asked.Backup = name
		_, err := s.begin(t, asked, "")
		testkit.Fails(t, err, kind)
	}
}

// TestRehearsedBeside: a rehearsal runs while another process holds the lease. A failed one is in the journal, and leaves the backup unproven, the
// cluster's facts and document unchanged, and no decrypted files.
func TestRehearsedBeside(t *testing.T) {
	s := newSite(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	set := s.backedUp(t, time.Now(), release.Default)
	other := testkit.Value(store.Open(t.Context(), s.at))(t)
	defer other.Close()
	rec := testkit.Value(other.Cluster(t.Context(), "demo"))(t)
	lease := testkit.Value(other.AcquireLease(t.Context(), rec.ID, "apply", store.LeaseOptions{}))(t)
	defer func() { testkit.Must(t, lease.Release(t.Context())) }()
	for want, find := range map[string]func() (*bundle.Bundle, error){
		"no room for a bundle":      func() (*bundle.Bundle, error) { return nil, fail.New(fail.Refused, "no room for a bundle") },
		"naupegos bundle build":     func() (*bundle.Bundle, error) { return nil, nil },
		"lacks keys of the cluster": func() (*bundle.Bundle, error) { return &bundle.Bundle{}, nil },
	} {
		asked := ""
		b := testkit.Value(Begin(t.Context(), testkit.Value(store.Open(t.Context(), s.at))(t), Asked{Verb: Rehearse, Cluster: "demo"}, Options{
			Verb: Rehearse, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil },
			Bundle: func(_ context.Context, _ *v1alpha1.Cluster, version, was string) (*bundle.Bundle, *bundle.Bundle, error) {
				asked = version + " " + was
				found, err := find()
				return found, found, err
			},
		}))(t)
		_, err := b.CarryOut(t.Context(), Terms{Front: &desk{out: t.Output()}, Meta: map[string]string{"by": want}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if asked != release.Default+" b-1" {
			t.Errorf("the bundle that was asked for is %q", asked)
		}
		testkit.Must(t, b.Close())
		run := testkit.Value(other.Runs(t.Context(), "demo", 1))(t)[0]
		if run.Verb != Rehearse || run.Meta["by"] != want || run.Outcome != plan.OutcomeFailed || run.Steps[0].ID != "backup/rehearse/"+set.ID {
			t.Errorf("the journal has %+v", run)
		}
	}
	if left := testkit.Value(os.ReadDir(tmp))(t); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
	if again := testkit.Value(backup.Open(t.Context(), backup.Directory(filepath.Join(s.at.Dir, "backups")), "demo", set.ID))(t); again.Proven() {
		t.Error("it counts as proven")
	}
	after := testkit.Value(other.Cluster(t.Context(), "demo"))(t)
	if len(after.Facts) != len(rec.Facts) || string(after.Document) != string(rec.Document) {
		t.Errorf("the store has learned %+v", after)
	}
}

// TestShownIsVerified: Verify refuses a set that another key than the cluster's in the store signed, and a rehearsal refuses an unsigned set.
func TestShownIsVerified(t *testing.T) {
	s := newSite(t)
	set := s.backedUp(t, time.Now(), release.Default)
	st := testkit.Value(store.Open(t.Context(), s.at))(t)
	defer st.Close()
	testkit.Must(t, set.Verify(testkit.Value(TrustOf(t.Context(), st, set.ClusterID))(t), st.Identity()))
	testkit.Must(t, st.Secrets(set.ClusterID).Put(t.Context(), backup.SigningSecret, backup.NewSigningKey()))
	testkit.Fails(t, set.Verify(testkit.Value(TrustOf(t.Context(), st, set.ClusterID))(t), st.Identity()), fail.Refused, "in the store is")
	testkit.Must(t, os.Remove(filepath.Join(s.at.Dir, "backups", "demo", set.ID, "manifest.sig")))
	b, err := Begin(t.Context(), testkit.Value(store.Open(t.Context(), s.at))(t), Asked{Verb: Rehearse, Cluster: "demo"}, Options{
		Verb: Rehearse, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil },
	})
	testkit.Must(t, err)
	defer b.Close()
	_, err = b.CarryOut(t.Context(), Terms{Front: &desk{out: t.Output()}, Meta: map[string]string{}})
	testkit.Fails(t, err, fail.Refused, "is not signed")
}
