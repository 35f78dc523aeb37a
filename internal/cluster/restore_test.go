package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRestoreIsKnownUntilItsEnd: a restore that is interrupted after the API has answered can still be continued by the same command. By then the
// snapshot is deleted, or it is deleted at the end.
func TestRestoreIsKnownUntilItsEnd(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	l.StateDir = t.TempDir()
	testkit.Must(t, l.Restore(t.Context(), "20261124T032115Z-901c", "v1.37.2", time.Now()))
	file := l.SnapshotFile(l.Restoring())
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	testkit.Must(t, os.WriteFile(file, nil, 0o600))

	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bootstrapped, "true")) // and killed
	if got := backups.Restores(l.Record); got != "20261124T032115Z-901c" {
		t.Errorf("a cluster that serves and lacks its workers is restored from %q", got)
	}
	l.leftOut = true
	testkit.Must(t, l.Converged(t.Context()))
	if backups.Restores(l.Record) == "" {
		t.Error("a part of the cluster ends its restore")
	}
	l.leftOut = false
	testkit.Must(t, l.Converged(t.Context()))
	if got := backups.Restores(l.Record); got != "" {
		t.Errorf("a cluster that is as its document says is restored from %q", got)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the snapshot is left: %v", err)
	}
}

// TestRestoreLivingPlan: with consent, all control planes stop before any starts again; at the end, facts about the former data are forgotten.
func TestRestoreLivingPlan(t *testing.T) {
	ctx := t.Context()
	begin := func() (*lab, *observe.Observed, map[string]bool) {
		l := newLab(t, document(t, 3, 1, 2)).Running(document(t, 3, 1, 2))
		answers := map[string]bool{}
		for name := range l.cloud.machines {
			answers[name] = true
		}
		return l, l.observed(nil, controlPlanes(3)...), answers
	}
	set := &backup.Set{Manifest: backup.Manifest{ID: "20261124T032115Z-901c", CreatedAt: time.Date(2026, 11, 24, 3, 21, 15, 0, time.UTC), Kubernetes: "v1.37.2"}}

	l, o, answers := begin()
	answers["demo-a-2"] = false
	testkit.Must(t, l.Facts.SetOf(ctx, memory.EtcdJoin, "demo-cp-3", "a=b"))
	steps, warnings, err := l.RestoreLivingSteps(ctx, o, set, answers, 2_000_000_007)
	testkit.Must(t, err)
	golden(t, "restore-living", listed(steps))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "demo-a-2 does not answer") {
		t.Errorf("it warns of %q", warnings)
	}
	for _, s := range steps {
		if strings.HasPrefix(s.ID, "etcd/halt/") && (s.Consent != backups.ConsentRestore || !s.Removes) {
			t.Errorf("%s needs consent %q", s.ID, s.Consent)
		}
	}
	if r := l.Restoring(); r.Bump != 3_000_000_007 || r.Place().Bump != r.Bump || !backups.RestoresLiving(l.Record) {
		t.Errorf("it is %+v: revisions have to grow beyond what was seen", r)
	}
	if len(l.InitialMembers()) != 3 || len(l.Facts.Each(memory.EtcdJoin)) > 0 {
		t.Errorf("etcd begins with %v", l.InitialMembers())
	}
	_, err = l.PlanApply(ctx)
	testkit.Fails(t, err, fail.Refused, "--from 20261124T032115Z-901c --consent replace-data continues")
	again, _, err := l.RestoreLivingSteps(ctx, o, nil, answers, 0)
	testkit.Must(t, err)
	if len(again) != len(steps)-1 { // existing data is not worth a backup then
		t.Errorf("it goes on with %d steps of %d", len(again), len(steps))
	}

	l, o, answers = begin()
	answers["demo-cp-2"] = false
	_, _, err = l.RestoreLivingSteps(ctx, o, set, answers, 7)
	testkit.Fails(t, err, fail.Refused, "demo-cp-2 does not answer", "its etcd could go on with the former data")
}

// TestFitsLiving: data that a living cluster could not read, or would not trust, is not restored into it.
func TestFitsLiving(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, document(t, 1, 0)).Running(document(t, 1, 0))
	testkit.Must(t, l.PKI.Ensure(ctx))
	secrets := map[string][]byte{"leaf/x": []byte("of then"), "ssh": []byte("of then")}
	for _, name := range testkit.Value(l.Secrets.Names(ctx))(t) {
		if pki.IsRoot(name) {
			secrets[name] = testkit.Value(l.Secrets.Get(ctx, name))(t)
		}
	}
	if len(secrets) < 6 {
		t.Fatalf("the roots are %v", slices.Sorted(maps.Keys(secrets)))
	}
	set := &backup.Set{Manifest: backup.Manifest{ID: "x", Kubernetes: l.Told().Machines}}
	rec := func() *store.Cluster {
		return &store.Cluster{ID: l.Record.ID, Name: "demo", Facts: store.Facts{{Kind: "wireguard-peer", Subject: "a"}: "10.0.0.1", {Kind: "smoked"}: "true"}}
	}
	testkit.Must(t, l.FitsLiving(ctx, set, rec(), secrets))
	other := rec()
	other.ID = "demo-1"
	testkit.Fails(t, l.FitsLiving(ctx, set, other, secrets), fail.Refused, "of another cluster of this name")
	newer := *set
	newer.Kubernetes = "v1.36.4"
	testkit.Fails(t, l.FitsLiving(ctx, &newer, rec(), secrets), fail.Refused, "of Kubernetes v1.36.4")
	rotated := rec()
	rotated.Facts[store.Fact{Kind: string(memory.Generation), Subject: pki.EtcdCA}] = "2"
	testkit.Fails(t, l.FitsLiving(ctx, set, rotated, secrets), fail.Refused, "were rotated since", "naupegos destroy demo")
	secrets[pki.ServiceAccountKeyName] = []byte("another")
	testkit.Fails(t, l.FitsLiving(ctx, set, rec(), secrets), fail.Refused, "service-account has changed since")
}

// TestFitsAnew: a backup becomes another cluster only if its objects can live there, and if it does not replace the former one.
func TestFitsAnew(t *testing.T) {
	former, doc := document(t, 1, 1, 1), document(t, 1, 1, 1)
	doc.Metadata.Name = "copy"
	testkit.Must(t, backups.FitsAnew(doc, former, true))
	doc.Spec.Endpoint.DNSName = "api.example.org"
	testkit.Fails(t, backups.FitsAnew(doc, former, true), fail.Refused, "its document names hosts or an endpoint")
	testkit.Must(t, backups.FitsAnew(doc, former, false))
	doc.Spec.Kubernetes.PodCIDR = "10.9.0.0/16"
	testkit.Fails(t, backups.FitsAnew(doc, former, false), fail.Refused, "its objects are of spec.kubernetes.podCIDR")
	former = document(t, 1, 1, 1)
	doc = document(t, 1, 1, 1)
	for _, d := range []*v1alpha1.Cluster{former, doc} {
		d.Spec.PKI.Issuer = &v1alpha1.Issuer{Vault: &v1alpha1.Vault{Address: "https://vault.example.org"}}
	}
	testkit.Fails(t, backups.FitsAnew(doc, former, false), fail.Refused, "both clusters would use the same authorities in Vault")
}

// TestEncryptOtherwise: a cluster from another's backup writes with a key whose name the other does not use, and records that.
func TestEncryptOtherwise(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	list, keys, err := l.EncryptOtherwise(t.Context(), []string{"key1", "identity", "key3"})
	testkit.Must(t, err)
	if !slices.Equal(list, []string{"key4", "identity"}) || len(keys["key4"]) != 32 || l.EncryptionKey() != "key4" {
		t.Errorf("it is %v, %v", list, l.EncryptionKey())
	}
	again := testkit.Value(l.PKI.EncryptionKey(t.Context(), "key4"))(t)
	if string(again) != string(keys["key4"]) {
		t.Error("the key is another one")
	}
}
