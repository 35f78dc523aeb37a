package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
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

// servers are at work until they say that they are not, or say nothing for a while.
func servers(t *testing.T, at Opener, _ Database) {
	near, far, ctx := at("near"), at("far"), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	testkit.Must(t, near.BeatServer(ctx, store.ServerInfo{ID: "a", Version: "v1", HTTPS: "10.0.0.1:8443", Started: now}, time.Hour))
	testkit.Must(t, far.BeatServer(ctx, store.ServerInfo{ID: "b", Started: now.Add(time.Second)}, time.Hour))
	testkit.Must(t, near.BeatServer(ctx, store.ServerInfo{ID: "a", Version: "v1", HTTPS: "10.0.0.1:8444", Started: now}, time.Hour))
	all := testkit.Value(far.Servers(ctx))(t)
	if len(all) != 2 || all[0].ID != "a" || all[0].HTTPS != "10.0.0.1:8444" || !all[0].Started.Equal(now) || !strings.Contains(all[0].Holder, "near") {
		t.Errorf("at work are %+v", all)
	}
	testkit.Must(t, near.LeaveServer(ctx, "a"))
	testkit.Must(t, far.BeatServer(ctx, store.ServerInfo{ID: "b", Started: now}, time.Millisecond))
	testkit.Until(t, time.Minute, 5*time.Millisecond, func() error {
		if all, err := near.Servers(ctx); err != nil || len(all) > 0 {
			return fail.New(fail.NotReady, "%+v, %v", all, err)
		}
		return nil
	})
}
