package storetest

import (
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// serverSecrets belong to no cluster, and are the same for all who use the store.
func serverSecrets(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	x := s.ServerSecrets()
	_, err := x.Get(ctx, "authority")
	testkit.Fails(t, err, fail.NotFound, "authority")
	testkit.Must(t, x.Put(ctx, "authority", []byte("one")))
	if v, err := at("far").ServerSecrets().PutIfAbsent(ctx, "authority", []byte("two")); err != nil || string(v) != "one" {
		t.Errorf("%q, %v", v, err)
	}
	testkit.Must(t, x.Put(ctx, "authority", []byte("three")))
	if v, err := at("far").ServerSecrets().Get(ctx, "authority"); err != nil || string(v) != "three" {
		t.Errorf("%q, %v", v, err)
	}
	testkit.Must(t, x.Put(ctx, "another", nil))
	if names, err := x.Names(ctx); err != nil || !slices.Equal(names, []string{"another", "authority"}) {
		t.Errorf("%v, %v", names, err)
	}
	testkit.Must(t, x.Delete(ctx, "another"))
	_, err = x.Get(ctx, "another")
	testkit.Fails(t, err, fail.NotFound)
	testkit.Fails(t, x.Put(ctx, "", nil), fail.Invalid)
}
