package cluster

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRecord wants a record to come out of a backup as it went in.
func TestRecord(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	rec := store.Cluster{ID: "demo-1", Name: "demo", Provider: "local", Document: []byte("kind: Cluster"), CreatedAt: at, UpdatedAt: at.Add(time.Hour),
		Facts: store.Facts{{Kind: "bundle"}: "v1 sha256-1", {Kind: "host", Subject: "a"}: "{}", {Kind: "host", Subject: "b"}: ""}}
	r := memory.RecordOf(&rec)
	got := memory.FromRecord(r, rec.Document)
	if r.Bundle != "sha256-1" || got.ID != rec.ID || got.Provider != rec.Provider || !maps.Equal(got.Facts, rec.Facts) || !got.UpdatedAt.Equal(rec.UpdatedAt) {
		t.Errorf("it is %+v, with bundle %q", got, r.Bundle)
	}
}

func TestBackupPlans(t *testing.T) {
	l := newLab(t, document(t, 1, 0))
	if _, err := l.PlanBackup("as requested", nil); fail.KindOf(err) != fail.NotReady {
		t.Errorf("before it was up: %v", err)
	}
	l.Record.Facts[store.Fact{Kind: "bootstrapped"}] = "true"
	dir := t.TempDir()
	l.StateDir = dir
	step := testkit.Value(l.PlanBackup("as requested", nil))(t).Steps[0]
	if got := step.Details[0]; got != "in "+dir+"/backups, encrypted for the store's identity" {
		t.Errorf("it says %q", got)
	}
	if _, err := l.PlanPrune(t.Context()); fail.KindOf(err) != fail.Invalid {
		t.Errorf("with nothing said about what stays: %v", err)
	}
	l.Doc.Spec.Backup = &v1alpha1.Backup{
		To: &v1alpha1.BackupTarget{S3: &v1alpha1.BackupS3{Endpoint: "https://s3.example.org/", Bucket: "b", Prefix: "p"}}, Recipients: []string{"age1a", "age1b"},
	}
	if got := l.BackupStep("", nil).Details[0]; got != "in https://s3.example.org/b/p, encrypted for the store's identity and 2 recipients" {
		t.Errorf("it says %q", got)
	}
	l.Doc.Spec.Backup = &v1alpha1.Backup{To: &v1alpha1.BackupTarget{Directory: dir}, Keep: &v1alpha1.BackupKeep{Last: 1}}
	const to = "age1jdhqfnsjmmydcdhxttv435urdc4xl90qfx5cx9ecz00mseh7dqcqc6zgqm"
	for i := range 3 {
		made := time.Date(2026, 11, 23, i, 0, 0, 0, time.UTC)
		about := backup.Manifest{Cluster: l.Name(), ClusterID: l.Record.ID, Recipients: []string{to}}
		testkit.Value(backup.Create(t.Context(), backup.Directory(dir), backup.Source{About: about, Now: func() time.Time { return made }, Snapshot: noSnapshot}))(t)
	}
	p := testkit.Value(l.PlanPrune(t.Context()))(t)
	if len(p.Steps) != 2 || !strings.HasPrefix(p.Steps[0].ID, "backup/remove/20261123T000000Z") {
		t.Fatalf("it is to remove %d, first %v", len(p.Steps), p.Steps[0].ID)
	}
	for _, s := range p.Steps {
		testkit.Must(t, s.Run(t.Context(), nil))
	}
	if b := l.Backups(t.Context()); b.Last.Hour() != 2 || b.ProvenID != "" || b.Problem != "" {
		t.Errorf("left is %+v", b)
	}
	if p := testkit.Value(l.PlanPrune(t.Context()))(t); !p.Empty() {
		t.Errorf("there is more to remove: %v", p.Steps)
	}
}

// noSnapshot writes no data.
func noSnapshot(context.Context, io.Writer) (backup.Etcd, error) { return backup.Etcd{}, nil }

// TestSchedule: with a schedule, control-plane machines have a timer, and the store's knowledge is copied into etcd after all other steps
// whenever it changes.
func TestSchedule(t *testing.T) {
	doc := document(t, 3, 1, 1)
	l := newLab(t, doc)
	credentials := filepath.Join(t.TempDir(), "credentials")
	testkit.Must(t, os.WriteFile(credentials, []byte("[default]\naws_access_key_id = key\naws_secret_access_key = word\n"), 0o600))
	doc.Spec.Backup = &v1alpha1.Backup{
		To:   &v1alpha1.BackupTarget{S3: &v1alpha1.BackupS3{Endpoint: "https://s3.example.org", Bucket: "bucket", CredentialsFile: credentials}},
		Keep: &v1alpha1.BackupKeep{Last: 3}, Schedule: "0 */12 * * *",
	}
	l.Store = recipientOnly{}
	l.Running(doc)
	conf := l.have["demo-cp-2"]
	files := map[string]machine.File{}
	for _, f := range conf.Files {
		files[f.Path] = f
	}
	if f := files[render.CredentialsPlace]; f.Mode != 0o600 || !f.Secret || !strings.Contains(string(f.Content), "aws_secret_access_key = word\n") {
		t.Errorf("the credentials are %v", f.Mode)
	}
	if f := files[render.SigningPlace]; f.Mode != 0o600 || !f.Secret || string(f.Content) != string(testkit.Value(l.Secrets.Get(t.Context(), backup.MachinesSecret))(t)) {
		t.Errorf("the machines' key is %v", f.Mode)
	}
	if own := testkit.Value(l.SigningKey(t.Context(), backup.SigningSecret))(t); strings.Contains(string(files[render.SigningPlace].Content), strings.TrimSpace(string(own))) {
		t.Error("machines have the cluster's own key")
	}
	var set turns.Settings
	testkit.Must(t, json.Unmarshal(files[render.BackupSettings].Content, &set))
	if set.Machine != "demo-cp-2" || set.To.S3.CredentialsFile != render.CredentialsPlace || set.To.S3.Bucket != "bucket" || set.Keep.Last != 3 || set.Schedule != "0 */12 * * *" {
		t.Errorf("the settings are %+v", set)
	}
	units := map[string]machine.Unit{}
	for _, u := range conf.Units {
		units[u.Name] = u
	}
	if u := units["naupegos-backup.timer"]; !u.Active || !u.Enabled || !strings.Contains(u.Content, "\nOnCalendar=*-*-* 00,12:00:00 UTC\n") {
		t.Errorf("the timer is %+v", u)
	}
	if u := units["naupegos-backup.service"]; !u.OnDemand || u.Active || u.Enabled {
		t.Errorf("the service is %+v", u)
	}
	for _, name := range []string{"demo-a-1", "demo-gw-1"} {
		if slices.ContainsFunc(l.have[name].Units, func(u machine.Unit) bool { return strings.HasPrefix(u.Name, "naupegos-backup") }) {
			t.Errorf("%s makes backups", name)
		}
	}

	const lay = "backup/lay"
	if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); !strings.HasPrefix(p, "lay:\n  create  "+lay) {
		t.Errorf("at first it plans\n%s", p)
	}
	learn := func() {
		testkit.Must(t, l.Facts.Set(t.Context(), memory.BackupLaid, testkit.Value(l.OrderDigest(t.Context()))(t)))
	}
	learn()
	if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); p != "" {
		t.Errorf("what is laid is laid again:\n%s", p)
	}
	l.state("demo-a-1", provider.Stopped)
	if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); !strings.Contains(p, "lay:\n  change  "+lay) {
		t.Errorf("with other things to do it plans\n%s", p)
	}
	l.state("demo-a-1", provider.Running)
	for what, change := range map[string]func(){
		"a fact":   func() { testkit.Must(t, l.Facts.Set(t.Context(), memory.RotationHold, "true")) },
		"a secret": func() { testkit.Must(t, l.Secrets.Put(t.Context(), "other", []byte("key"))) },
		"a recipient": func() {
			doc.Spec.Backup.Recipients = []string{"age1jdhqfnsjmmydcdhxttv435urdc4xl90qfx5cx9ecz00mseh7dqcqc6zgqm"}
		},
	} {
		change()
		if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); !strings.Contains(p, lay) {
			t.Errorf("with %s that is new it plans %q", what, p)
		}
		learn()
	}
	testkit.Must(t, l.Secrets.Put(t.Context(), "leaf/x", []byte("certificate")))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(doc.Marshal())(t))))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bundle, l.BundleToBe()))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.SoakSince, "2026-11-28T22:00:00Z"))
	for _, kind := range []memory.Kind{memory.PoolSize, memory.PoolShape, memory.PoolFormer} {
		testkit.Must(t, l.Facts.SetOf(t.Context(), kind, "general", "3"))
	}
	if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); p != "" {
		t.Errorf("what counts has not changed, and it plans\n%s", p)
	}

	testkit.Must(t, os.Remove(credentials)) // on another host of the operator's
	if got := string(testkit.Value(l.BackupCredentials(t.Context()))(t)); !strings.Contains(got, "word") {
		t.Errorf("what was found before is forgotten: %q", got)
	}
	doc.Spec.Backup.To = &v1alpha1.BackupTarget{Swift: &v1alpha1.BackupSwift{AuthURL: "https://cloud.example.org:5000/v3", Container: "c", CredentialsFile: credentials}}
	if _, err := l.BackupCredentials(t.Context()); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("what admits to a bucket is taken for a container: %v", err)
	}
	testkit.Must(t, os.WriteFile(credentials, []byte("export OS_APPLICATION_CREDENTIAL_ID=id\nexport OS_APPLICATION_CREDENTIAL_SECRET='word'\n"), 0o600))
	layer := testkit.Value(l.BackupLayer(t.Context(), "demo-cp-2"))(t)
	set = turns.Settings{}
	for _, f := range layer.Files {
		switch f.Path {
		case render.CredentialsPlace:
			if f.Mode != 0o600 || !f.Secret || string(f.Content) != "OS_APPLICATION_CREDENTIAL_ID=id\nOS_APPLICATION_CREDENTIAL_SECRET=word\n" {
				t.Errorf("the credential is %v: %s", f.Mode, f.Content)
			}
		case render.BackupSettings:
			testkit.Must(t, json.Unmarshal(f.Content, &set))
		}
	}
	if set.To.Swift == nil || set.To.Swift.CredentialsFile != render.CredentialsPlace || set.To.Swift.Container != "c" || set.To.S3 != nil || set.To.Directory != "" {
		t.Errorf("the settings are %+v", set)
	}
	doc.Spec.Backup.Schedule = ""
	l.Configure(doc, testkit.Value(l.ObserveInventory(t.Context(), nil))(t).Want)
	if p := l.mustPlan(l.observed(nil, controlPlanes(3)...)); !strings.HasPrefix(p, "lay:\n  destroy "+lay) {
		t.Errorf("without a schedule it plans\n%s", p)
	}
}

// recipientOnly is a store that only knows the recipient of backups.
type recipientOnly struct{ store.Store }

func (recipientOnly) Recipient() string { return "age1store" }
