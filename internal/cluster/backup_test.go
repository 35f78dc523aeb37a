package cluster

import (
	"context"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRecord wants a record to come out of a backup as it went in.
func TestRecord(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	rec := store.Cluster{ID: "demo-1", Name: "demo", Provider: "local", Document: []byte("kind: Cluster"), CreatedAt: at, UpdatedAt: at.Add(time.Hour),
		Facts: store.Facts{{Kind: "bundle"}: "v1 sha256-1", {Kind: "host", Subject: "a"}: "{}", {Kind: "host", Subject: "b"}: ""}}
	r := RecordOf(&rec)
	got := FromRecord(r, rec.Document)
	if r.Bundle != "sha256-1" || got.ID != rec.ID || got.Provider != rec.Provider || !maps.Equal(got.Facts, rec.Facts) || !got.UpdatedAt.Equal(rec.UpdatedAt) {
		t.Errorf("it is %+v, with bundle %q", got, r.Bundle)
	}
}

func TestBackupPlans(t *testing.T) {
	l := newLab(t, document(t, 1, 0))
	if _, err := l.PlanBackup("asked for", nil); fail.KindOf(err) != fail.NotReady {
		t.Errorf("before it was up: %v", err)
	}
	l.rec.Facts[store.Fact{Kind: "bootstrapped"}] = "true"
	dir := t.TempDir()
	l.stateDir = dir
	step := testkit.Value(l.PlanBackup("asked for", nil))(t).Steps[0]
	if got := step.Details[0]; got != "into "+dir+"/backups, encrypted for the store's identity" {
		t.Errorf("it says %q", got)
	}
	if _, err := l.PlanPrune(t.Context()); fail.KindOf(err) != fail.Invalid {
		t.Errorf("with nothing said about what stays: %v", err)
	}
	l.doc.Spec.Backup = &v1alpha1.Backup{
		To: &v1alpha1.BackupTarget{S3: &v1alpha1.BackupS3{Endpoint: "https://s3.example.org/", Bucket: "b", Prefix: "p"}}, Recipients: []string{"age1a", "age1b"},
	}
	if got := l.backupStep("", nil).Details[0]; got != "into https://s3.example.org/b/p, encrypted for the store's identity and 2 recipients" {
		t.Errorf("it says %q", got)
	}
	l.doc.Spec.Backup = &v1alpha1.Backup{To: &v1alpha1.BackupTarget{Directory: dir}, Keep: &v1alpha1.BackupKeep{Last: 1}}
	const to = "age1jdhqfnsjmmydcdhxttv435urdc4xl90qfx5cx9ecz00mseh7dqcqc6zgqm"
	for i := range 3 {
		made := time.Date(2026, 11, 23, i, 0, 0, 0, time.UTC)
		about := backup.Manifest{Cluster: l.Name(), ClusterID: l.rec.ID, Recipients: []string{to}}
		testkit.Value(backup.Create(t.Context(), backup.Directory(dir), backup.Source{About: about, Now: func() time.Time { return made }, Snapshot: noSnapshot}))(t)
	}
	p := testkit.Value(l.PlanPrune(t.Context()))(t)
	if len(p.Steps) != 2 || !strings.HasPrefix(p.Steps[0].ID, "backup/remove/20261123T000000Z") {
		t.Fatalf("it is to remove %d, first %v", len(p.Steps), p.Steps[0].ID)
	}
	for _, s := range p.Steps {
		testkit.Must(t, s.Run(t.Context(), nil))
	}
	if b := l.backups(t.Context()); b.Last.Hour() != 2 || b.ProvenID != "" || b.Problem != "" {
		t.Errorf("left is %+v", b)
	}
	if p := testkit.Value(l.PlanPrune(t.Context()))(t); !p.Empty() {
		t.Errorf("there is more to remove: %v", p.Steps)
	}
}

// noSnapshot writes no data.
func noSnapshot(context.Context, io.Writer) (backup.Etcd, error) { return backup.Etcd{}, nil }
