package cluster

import (
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// TestCommit: secrets from planning are only in memory; after Commit, they and all later ones are in the store.
func TestCommit(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, store.Location{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	l := newLab(t, document(t, 1, 2, 1))
	rec := &store.Cluster{ID: "demo-0a0b0c0d", Name: "demo"}
	under, over := st.Secrets(rec.ID), memory.NewOverlay(st.Secrets(rec.ID))
	l.Secrets, l.Store, l.Record, l.Facts = over, st, rec, memory.NewFacts(rec, nil)

	if err := over.Put(ctx, "key", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := l.Facts.Set(ctx, "fact", "one"); err != nil {
		t.Fatal(err)
	}
	if all, err := st.Clusters(ctx); err != nil || len(all) != 0 {
		t.Fatalf("planning left %v, %v", all, err)
	}
	if _, err := under.Get(ctx, "key"); fail.KindOf(err) != fail.NotFound {
		t.Fatalf("planning left a secret: %v", err)
	}

	if _, err := st.CreateCluster(ctx, *rec); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := over.PutIfAbsent(ctx, "key", []byte("two")); err != nil || string(v) != "one" {
		t.Errorf("what was planned with is %q now, %v", v, err)
	}
	if err := over.Put(ctx, "later", []byte("three")); err != nil {
		t.Fatal(err)
	}
	if err := l.Facts.Set(ctx, "later", "three"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"key": "one", "later": "three"} {
		if v, err := under.Get(ctx, name); err != nil || string(v) != want {
			t.Errorf("the store's %s is %q, %v", name, v, err)
		}
	}
	got, err := st.Cluster(ctx, "demo")
	if err != nil || got.Facts[store.Fact{Kind: "fact"}] != "one" || got.Facts[store.Fact{Kind: "later"}] != "three" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := over.Delete(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := under.Get(ctx, "key"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("deleted, it is still there: %v", err)
	}
}
