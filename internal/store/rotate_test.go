package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// stepEnv names the step at which a rotation kills its process.
const stepEnv = "STORE_TEST_STEP"

// rotateUntil rotates the identity of the store in $STORE_TEST_DIR, and is killed at a step.
func rotateUntil(step string) {
	at := Location{Dir: os.Getenv(dirEnv), steps: &steps{func(reached string) {
		if reached == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}}
	if _, err := Rotate(context.Background(), at); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// populated creates a store with rows in each table that a rotation writes.
func populated(t *testing.T, at Location) {
	t.Helper()
	s, ctx := testkit.Value(Open(t.Context(), at))(t), t.Context()
	for _, name := range []string{"one", "two"} {
		_, err := s.CreateCluster(ctx, Cluster{ID: name + "-00000000", Name: name, Facts: Facts{{"host", "m"}: name}})
		testkit.Must(t, err)
		_, err = s.AddJob(ctx, Job{Cluster: name, Verb: "apply"})
		testkit.Must(t, err)
		for i := range 20 {
			testkit.Must(t, s.Secrets(name+"-00000000").Put(ctx, fmt.Sprint("s", i), []byte(name+fmt.Sprint(i))))
		}
	}
	testkit.Must(t, s.AddToken(ctx, Token{ID: "t1", Role: "read", Created: time.Now()}))
	testkit.Must(t, s.AddSession(ctx, Session{ID: "s1", Claims: []byte("{}"), Created: time.Now(), Expires: time.Now().Add(time.Hour)}))
	testkit.Must(t, s.ServerSecrets().Put(ctx, "x", []byte("of x")))
	testkit.Must(t, s.Close())
}

// complete checks that everything from populated can be read.
func complete(t *testing.T, at Location) (recipient string, identity []byte) {
	t.Helper()
	s, ctx := testkit.Value(Open(t.Context(), at))(t), t.Context()
	defer func() { testkit.Must(t, s.Close()) }()
	for _, name := range []string{"one", "two"} {
		for i := range 20 {
			if got := testkit.Value(s.Secrets(name+"-00000000").Get(ctx, fmt.Sprint("s", i)))(t); string(got) != name+fmt.Sprint(i) {
				t.Errorf("secret %d of %s is %q", i, name, got)
			}
		}
	}
	if all := testkit.Value(s.Clusters(ctx))(t); len(all) != 2 || all[0].Facts[Fact{"host", "m"}] != "one" {
		t.Errorf("the clusters are %+v", all)
	}
	if all := testkit.Value(s.Jobs(ctx, "", 0))(t); len(all) != 2 {
		t.Errorf("the jobs are %+v", all)
	}
	testkit.Value(s.Token(ctx, "t1"))(t)
	testkit.Value(s.Session(ctx, "s1"))(t)
	if got := testkit.Value(s.ServerSecrets().Get(ctx, "x"))(t); string(got) != "of x" {
		t.Errorf("the server's secret is %q", got)
	}
	return s.Recipient(), s.Identity()
}

func TestRotate(t *testing.T) {
	ctx, at := t.Context(), Location{Dir: t.TempDir()}
	populated(t, at)
	before, was := complete(t, at)
	old := testkit.Value(Open(ctx, at))(t).(*database) // a server, or another host that shares the store
	defer func() { testkit.Must(t, old.Close()) }()
	testkit.Value(old.Secrets("one-00000000").Get(ctx, "s0"))(t)
	rows := map[string]string{}
	for _, q := range []string{"SELECT wrapped FROM cluster_keys WHERE cluster_id = 'one-00000000'", "SELECT mac FROM cluster_keys WHERE cluster_id = 'one-00000000'", "SELECT mac FROM tokens WHERE id = 't1'"} {
		rows[q] = testkit.Value(value[string](old.db.QueryRow(q)))(t)
	}
	done := testkit.Value(Rotate(ctx, at))(t)
	after, now := complete(t, at)
	if before == after || after != done.Recipient || done.Clusters != 2 || done.Secrets != 41 {
		t.Errorf("%s, then %s: %+v", before, after, done)
	}
	if len(testkit.Value(age.ParseIdentities(bytes.NewReader(now)))(t)) != 2 || !bytes.Contains(now, keyLine(t, was)) {
		t.Error("the former identity is not kept")
	}
	if raw := testkit.Value(os.ReadFile(done.Aside))(t); !bytes.Equal(raw, was) {
		t.Error("the former identity's file changed")
	}
	for name, do := range map[string]func() error{
		"a token":         func() error { return old.AddToken(ctx, Token{ID: "t2", Created: time.Now()}) },
		"a session":       func() error { return old.AddSession(ctx, Session{ID: "s2", Created: time.Now(), Expires: time.Now()}) },
		"a secret":        func() error { return old.Secrets("one-00000000").Put(ctx, "late", []byte("x")) },
		"a server secret": func() error { return old.ServerSecrets().Put(ctx, "late", []byte("x")) },
		"a record":        func() error { return old.SaveCluster(ctx, &Cluster{ID: "one-00000000"}) },
		"a fact":          func() error { return old.SetFact(ctx, "one-00000000", Fact{Kind: "late"}, "x") },
		"a job":           func() error { _, err := old.AddJob(ctx, Job{Cluster: "three"}); return err },
		"taking a job":    func() error { _, err := old.ClaimJob(ctx, time.Minute); return err },
		"a revocation":    func() error { return old.RevokeToken(ctx, "t1") },
		"a beat":          func() error { return old.BeatServer(ctx, ServerInfo{ID: "a"}, time.Minute) },
		"reading":         func() error { _, err := old.Secrets("one-00000000").Get(ctx, "s0"); return err },
	} {
		if err := do(); !errors.Is(err, ErrRenewed) || fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "restart the process") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Old rows are refused.
	for _, do := range []string{"UPDATE tokens SET mac = '" + rows["SELECT mac FROM tokens WHERE id = 't1'"] + "'",
		"UPDATE cluster_keys SET wrapped = '" + rows["SELECT wrapped FROM cluster_keys WHERE cluster_id = 'one-00000000'"] + "', mac = '" + rows["SELECT mac FROM cluster_keys WHERE cluster_id = 'one-00000000'"] + "' WHERE cluster_id = 'one-00000000'"} {
		_, err := old.db.Exec(do)
		testkit.Must(t, err)
	}
	s := testkit.Value(Open(ctx, at))(t)
	_, err := s.Token(ctx, "t1")
	testkit.Fails(t, err, fail.Refused, "tokens", "t1")
	_, err = s.Secrets("one-00000000").Get(ctx, "s0")
	testkit.Fails(t, err, fail.Refused, "cluster_keys", "one")
	testkit.Must(t, s.Close())
}

// TestRotateRefusesForgedRows: a rotation refuses rows that the old identity does not verify, and stores with a held lease.
func TestRotateRefusesForgedRows(t *testing.T) {
	ctx, at := t.Context(), Location{Dir: t.TempDir()}
	populated(t, at)
	before, _ := complete(t, at)
	s := testkit.Value(Open(ctx, at))(t).(*database)
	lease := testkit.Value(s.AcquireLease(ctx, "one-00000000", "apply", LeaseOptions{}))(t)
	_, err := Rotate(ctx, at)
	testkit.Fails(t, err, fail.Conflict, "apply")
	testkit.Must(t, lease.Release(ctx))
	_, err = s.db.Exec("UPDATE tokens SET role = 'admin'")
	testkit.Must(t, err)
	_, err = Rotate(ctx, at)
	testkit.Fails(t, err, fail.Refused, "tokens", "t1")
	_, err = s.db.Exec("UPDATE tokens SET role = 'read'")
	testkit.Must(t, err)
	if after, _ := complete(t, at); after != before {
		t.Error("the identity was rotated")
	}
	testkit.Must(t, s.Close())
}

// TestRotateKilled kills a rotation at each step and at random moments. The next open reads everything, with the old identity or the new one.
func TestRotateKilled(t *testing.T) {
	at := Location{Dir: t.TempDir()}
	populated(t, at)
	before, _ := complete(t, at)
	for _, step := range []string{"written", "committed", "aside"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=rotate", dirEnv+"="+at.Dir, stepEnv+"="+step)
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("%s: it was not killed: %v: %s", step, err, out)
		}
		after, _ := complete(t, at)
		if renewed := step != "written"; (after != before) != renewed {
			t.Errorf("killed when %s, the store has %s, before %s", step, after, before)
		}
		before = after
	}
	for i := range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=rotate", dirEnv+"="+at.Dir)
		testkit.Must(t, cmd.Start())
		time.Sleep(time.Duration(i*15) * time.Millisecond) // random moments
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		complete(t, at)
	}
	testkit.Value(Rotate(t.Context(), at))(t)
	complete(t, at)
	if _, err := os.Stat(filepath.Join(at.Dir, identityFile+nextSuffix)); err == nil {
		t.Error("the file of the new identity is left")
	}
}

// TestFormerIdentity: the error for a former identity says where to get the new one.
func TestFormerIdentity(t *testing.T) {
	at := Location{Dir: t.TempDir()}
	populated(t, at)
	_, was := complete(t, at)
	testkit.Value(Rotate(t.Context(), at))(t)
	testkit.Must(t, os.WriteFile(filepath.Join(at.Dir, identityFile), was, 0o600))
	_, err := Open(t.Context(), at)
	testkit.Fails(t, err, fail.Unauthorized, "was rotated at", "the new identity.age")
}
