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

// duties are done by one server at a time, and not before they are due.
func duties(t *testing.T, at Opener, _ Database) {
	near, far, ctx := at("near"), at("far"), t.Context()
	d := testkit.Value(near.TakeDuty(ctx, "demo", "renew", time.Hour))(t)
	if d == nil || d.Generation != 1 || d.Began.IsZero() {
		t.Fatalf("taken was %+v", d)
	}
	if other := testkit.Value(far.TakeDuty(ctx, "demo", "renew", time.Hour))(t); other != nil {
		t.Errorf("it was taken twice: %+v", other)
	}
	d.Outcome, d.Message, d.Failures = store.DutyFailed, "no\x00 answer", 1
	testkit.Must(t, near.EndDuty(ctx, d, time.Hour))
	testkit.Fails(t, near.KeepDuty(ctx, d, time.Hour), fail.Conflict, "another server")
	if other := testkit.Value(far.TakeDuty(ctx, "demo", "renew", time.Hour))(t); other != nil {
		t.Errorf("it was taken before it was due: %+v", other)
	}
	testkit.Must(t, near.EndDuty(ctx, d, -time.Hour)) // due again
	again := testkit.Value(far.TakeDuty(ctx, "demo", "renew", time.Millisecond))(t)
	if again == nil || again.Failures != 1 || again.Message != "no\uFFFD answer" || !again.Succeeded.IsZero() {
		t.Fatalf("taken was %+v", again)
	}
	testkit.Fails(t, near.EndDuty(ctx, d, 0), fail.Conflict, "another server")
	var third *store.Duty
	testkit.Until(t, time.Minute, 5*time.Millisecond, func() (err error) { // once the second one's time is over
		if third, err = near.TakeDuty(ctx, "demo", "renew", time.Hour); err == nil && third == nil {
			err = fail.New(fail.NotReady, "not yet")
		}
		return err
	})
	testkit.Fails(t, far.KeepDuty(ctx, again, time.Hour), fail.Conflict, "another server")
	third.Outcome, third.Message, third.Failures = store.DutyDone, "it stands", 0
	testkit.Must(t, near.KeepDuty(ctx, third, time.Hour))
	if all := testkit.Value(far.Duties(ctx, "demo"))(t); len(all) != 1 || all[0].Message != "it stands" || all[0].Failures != 0 || all[0].Succeeded.IsZero() || all[0].Holder == "" {
		t.Errorf("under way is %+v", all)
	}
	third.Outcome = ""
	testkit.Must(t, near.KeepDuty(ctx, third, time.Millisecond)) // and then it lets it go
	testkit.Until(t, time.Minute, 5*time.Millisecond, func() (err error) {
		if again, err = far.TakeDuty(ctx, "demo", "renew", time.Millisecond); err == nil && again == nil {
			err = fail.New(fail.NotReady, "not yet")
		}
		return err
	})
	if again.Outcome != store.DutyDone || again.Message != "it stands" {
		t.Errorf("taken was %+v", again)
	}
	third = again
	third.Outcome, third.Message, third.Failures, third.Job = store.DutyNothing, "", 0, "j1"
	testkit.Must(t, near.EndDuty(ctx, third, time.Hour))
	testkit.Value(near.TakeDuty(ctx, "other", "drift", time.Hour))(t)
	all := testkit.Value(far.Duties(ctx, ""))(t)
	if len(all) != 2 || all[0].Outcome != store.DutyNothing || all[0].Succeeded.IsZero() || all[0].Job != "j1" || all[0].Holder != "" || !strings.Contains(all[1].Holder, "near") {
		t.Errorf("%+v", all)
	}
	testkit.Must(t, near.DropDuty(ctx, "demo", "renew"))
	testkit.Must(t, near.DropDuty(ctx, "demo", "renew"))
	if all := testkit.Value(far.Duties(ctx, "demo"))(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// manyRaceForADuty: of many servers that look at once, one has it.
func manyRaceForADuty(t *testing.T, at Opener, _ Database) {
	const n = 6
	got := make(chan *store.Duty, n)
	for range n {
		s := at("")
		go func() {
			d, err := s.TakeDuty(t.Context(), "demo", "drift", time.Hour)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
	}
	had := 0
	for range n {
		if <-got != nil {
			had++
		}
	}
	if had != 1 {
		t.Errorf("%d servers took it", had)
	}
}
