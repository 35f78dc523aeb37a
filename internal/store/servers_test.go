package store_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRestoreBelowAServer: a running server keeps its store. What came out of a backup neither goes on with jobs of its time, nor lets in
// whose token was revoked since, nor anybody who had signed in.
func TestRestoreBelowAServer(t *testing.T) {
	ctx, home, key := t.Context(), store.Location{Dir: t.TempDir()}, archive.Key{Passphrase: "correct horse", Work: 10}
	s := testkit.Value(store.Open(ctx, home))(t)
	defer s.Close()
	for _, id := range []string{"ann", "bob"} {
		testkit.Must(t, s.AddToken(ctx, store.Token{ID: id, Name: id, Created: time.Now()}))
	}
	testkit.Must(t, s.AddSession(ctx, store.Session{ID: "carol", Expires: time.Now().Add(time.Hour)}))
	job := testkit.Value(s.AddJob(ctx, store.Job{Cluster: "demo", Verb: "apply", Request: []byte("{}")}))(t)
	testkit.Value(s.TakeDuty(ctx, "demo", "drift", time.Hour))(t)
	testkit.Must(t, s.BeatServer(ctx, store.ServerInfo{ID: "one", Started: time.Now()}, time.Hour))
	_, err := s.Metal().Change(ctx, "b5bda1cd-0001", metal.How{Make: true}, func(*metal.Draft) error { return nil })
	testkit.Must(t, err)
	var file bytes.Buffer
	testkit.Value(store.Backup(ctx, home, &file, key))(t)
	testkit.Must(t, s.RevokeToken(ctx, "bob"))

	restore := func(at store.Location, replace bool) error {
		_, err := store.Restore(ctx, at, bytes.NewReader(file.Bytes()), key, replace)
		return err
	}
	testkit.Fails(t, restore(home, true), fail.Conflict, "a server is at work on this store")
	_, err = store.Move(ctx, home, store.Location{Dir: t.TempDir()}, false)
	testkit.Fails(t, err, fail.Conflict, "a server is at work on this store")
	testkit.Must(t, s.LeaveServer(ctx, "one"))
	testkit.Fails(t, restore(home, false), fail.Refused, "1 physical machines", "--replace")
	testkit.Must(t, restore(home, true))
	if all := testkit.Value(s.Tokens(ctx))(t); len(all) != 2 || !all[0].Revoked.IsZero() || all[1].Revoked.IsZero() {
		t.Errorf("the tokens are %+v", all)
	}
	if all := testkit.Value(s.Sessions(ctx))(t); len(all) != 0 {
		t.Errorf("signed in are %+v", all)
	}
	if j := testkit.Value(s.Job(ctx, job.ID))(t); j.State != store.JobEnded || !bytes.Contains(j.Result, []byte("interrupted")) {
		t.Errorf("the job is %+v: %s", j, j.Result)
	}
	away := store.Location{Dir: t.TempDir()}
	testkit.Must(t, restore(away, false))
	n := testkit.Value(store.Open(ctx, away))(t)
	defer n.Close()
	if all := testkit.Value(n.Servers(ctx))(t); len(all) != 0 {
		t.Errorf("at work on the copy are %+v", all)
	}
	if c := testkit.Value(n.Metal().Counts(ctx))(t); c[""] != 1 {
		t.Errorf("the copy has the machines %v", c)
	}
}

// TestBackupUnderWrites: what is backed up while others write is the store as it was at one moment: each token was written before its
// machine, so that of a copy that has n machines there are n or n+1 tokens.
func TestBackupUnderWrites(t *testing.T) {
	home, key := store.Location{Dir: t.TempDir()}, archive.Key{Passphrase: "correct horse", Work: 10}
	s := testkit.Value(store.Open(t.Context(), home))(t)
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	begun, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			id := fmt.Sprintf("b5bda1cd-%04d", n)
			err := s.AddToken(t.Context(), store.Token{ID: id, Name: "x", Created: time.Now()})
			if err == nil {
				_, err = s.Metal().Change(t.Context(), id, metal.How{Make: true}, func(*metal.Draft) error { return nil })
			}
			if err != nil {
				t.Error(err)
				break
			}
			if n == 20 {
				close(begun)
			}
		}
		done <- n
	}()
	select {
	case <-begun:
	case n := <-done:
		t.Fatalf("only %d were written", n)
	}
	counts := map[int]bool{}
	for range 3 {
		var file bytes.Buffer
		testkit.Value(store.Backup(t.Context(), home, &file, key))(t)
		away := store.Location{Dir: t.TempDir()}
		testkit.Value(store.Restore(t.Context(), away, &file, key, false))(t)
		n := testkit.Value(store.Open(t.Context(), away))(t)
		machines, tokens := testkit.Value(n.Metal().Counts(t.Context()))(t)[""], len(testkit.Value(n.Tokens(t.Context()))(t))
		testkit.Must(t, n.Close())
		if machines < 20 || tokens-machines < 0 || tokens-machines > 1 {
			t.Errorf("the copy has %d tokens and %d machines", tokens, machines)
		}
		counts[machines] = true
	}
	stop()
	if <-done; len(counts) < 2 {
		t.Errorf("nothing was written meanwhile: the copies have %v machines", counts)
	}
}
