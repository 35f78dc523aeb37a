//go:build integration

package store_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPostgresGoesAndComesBack stops and restarts the server: a short absence goes unnoticed, a long one ends in one clear error, and afterwards the
// same store works again.
func TestPostgresGoesAndComesBack(t *testing.T) {
	ctx := t.Context()
	server := storetest.StartPostgres(t)
	s := team(t, server.NewDatabase(t))("")
	c := cluster(t, s, "demo")
	l := testkit.Value(s.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{TTL: 2 * time.Minute}))(t)
	testkit.Must(t, s.Secrets(c.ID).Put(ctx, "a", []byte("one")))

	server.Stop(t)
	done := make(chan error, 1)
	go func() { done <- s.Secrets(c.ID).Put(ctx, "a", []byte("two")) }()
	server.Start(t)
	if err := <-done; err != nil {
		t.Errorf("a write while the server was away: %v", err)
	}
	if v := testkit.Value(s.Secrets(c.ID).Get(ctx, "a"))(t); string(v) != "two" {
		t.Errorf("then the secret is %q", v)
	}
	testkit.Must(t, l.Check(ctx))

	server.Stop(t)
	store.SetPatience(s, 300*time.Millisecond)
	_, listed := s.Clusters(ctx)
	_, begun := s.AcquireLease(ctx, c.ID, "destroy", store.LeaseOptions{})
	for _, err := range []error{listed, begun, s.SaveCluster(ctx, c), l.Check(ctx)} {
		testkit.Fails(t, fail.Whole(err), fail.Unreachable, "postgres://team@127.0.0.1", "check that the PostgreSQL server runs", "run the same command again")
		if strings.Contains(err.Error(), storetest.Password) {
			t.Errorf("the password is in %v", err)
		}
	}
	server.Start(t)
	testkit.Must(t, l.Check(ctx))
	testkit.Must(t, s.SaveCluster(ctx, c))
	testkit.Must(t, l.Release(ctx))
}

// TestPostgresEndsWhatWasHeldUp: a process that is suspended during a transaction does not block others for long, and its pending writes do not come
// later.
func TestPostgresEndsWhatWasHeldUp(t *testing.T) {
	ctx := t.Context()
	server := storetest.StartPostgres(t)
	at := team(t, server.NewDatabase(t))
	far, near := at("far"), at("near")
	c := cluster(t, near, "demo")
	old := testkit.Value(far.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{TTL: time.Millisecond}))(t)
	store.HoldUp(old)
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- store.Fenced(ctx, far, c.ID, func() { close(inside); <-goOn })
	}()
	<-inside
	began := time.Now()
	l := testkit.Value(near.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}))(t)
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("the new holder waited %s", took)
	}
	close(goOn)
	testkit.Fails(t, <-ended, fail.Conflict, "the lease was lost")
	if got := testkit.Value(near.Cluster(ctx, "demo"))(t); got.Provider != "local" {
		t.Errorf("the provider is %q", got.Provider)
	}
	testkit.Must(t, l.Release(ctx))
}

// TestPostgresKeepsNoSecret: neither the database nor the server's log contains a secret or the identity in plain text. The URL may contain the
// password, which appears nowhere.
func TestPostgresKeepsNoSecret(t *testing.T) {
	ctx := t.Context()
	server := storetest.StartPostgres(t)
	address := server.NewDatabase(t)
	dir := filepath.Join(t.TempDir(), "state")
	s := testkit.Value(store.Open(ctx, store.Location{Dir: dir, URL: storetest.WithPassword(t, address)}))(t)
	defer s.Close()
	if s.Where() != address || s.Dir() != dir {
		t.Errorf("it lies in %s and %s", s.Where(), s.Dir())
	}
	c := cluster(t, s, "demo")
	testkit.Must(t, s.Secrets(c.ID).Put(ctx, "ca", []byte("PLANTED-SECRET")))
	identity := testkit.Value(os.ReadFile(filepath.Join(dir, store.IdentityFile)))(t)
	for what, text := range map[string]string{"database": server.Dump(t, "store1"), "log": server.Log(t)} {
		if strings.Contains(text, "PLANTED") || strings.Contains(text, "AGE-SECRET") || len(text) < 100 {
			t.Errorf("the %s holds a secret, or nothing:\n%s", what, text)
		}
	}
	if !bytes.Contains(identity, []byte("AGE-SECRET")) {
		t.Errorf("the identity is %s", identity)
	}

	for _, test := range []struct {
		url  string
		kind fail.Kind
		says string
	}{
		{strings.Replace(storetest.WithPassword(t, address), "Pa55", "Other", 1), fail.Unauthorized, "PGPASSWORD"},
		{address, fail.Unauthorized, "PGPASSWORD"},
		{strings.Replace(storetest.WithPassword(t, address), "store1", "nosuch", 1), fail.NotFound, "createdb"},
		{storetest.WithPassword(t, address) + "?sslmode=verify-full", fail.Unreachable, "tls error"},
	} {
		_, err := store.Open(ctx, store.Location{Dir: t.TempDir(), URL: test.url})
		testkit.Fails(t, err, test.kind, test.says)
		if strings.Contains(err.Error(), "w/o@rd") || strings.Contains(err.Error(), "w%2Fo") {
			t.Errorf("the password is in %v", err)
		}
	}
}

// TestPostgresPasswordFile: libpq's password files work.
func TestPostgresPasswordFile(t *testing.T) {
	server := storetest.StartPostgres(t)
	address := server.NewDatabase(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "pgpass")
	word := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(storetest.Password)
	testkit.Must(t, os.WriteFile(file, []byte("127.0.0.1:*:*:"+storetest.Owner+":"+word+"\n"), 0o600))
	t.Setenv("PGPASSFILE", file)
	s := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir(), URL: address}))(t)
	testkit.Must(t, s.Close())
}

// TestPostgresIdentityIsShared: users without a copy of the team's identity, or with another one, are told where to get it; nothing is replaced.
func TestPostgresIdentityIsShared(t *testing.T) {
	server := storetest.StartPostgres(t)
	t.Setenv("PGPASSWORD", storetest.Password)
	address := server.NewDatabase(t)
	empty := testkit.Value(store.View(t.Context(), store.Location{Dir: filepath.Join(t.TempDir(), "none"), URL: address}))(t)
	if all, err := empty.Clusters(t.Context()); err != nil || len(all) != 0 || empty.Where() != address {
		t.Errorf("a database without a store shows %v, %v in %s", all, err, empty.Where())
	}
	testkit.Must(t, empty.Close())
	testkit.Must(t, testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir(), URL: address}))(t).Close())
	mine := t.TempDir()
	_, err := store.Open(t.Context(), store.Location{Dir: mine, URL: address})
	testkit.Fails(t, err, fail.Unauthorized, "copy identity.age", address)
	if _, err := os.Stat(filepath.Join(mine, store.IdentityFile)); err == nil {
		t.Error("an identity was made")
	}
	testkit.Must(t, testkit.Value(store.Open(t.Context(), store.Location{Dir: mine}))(t).Close()) // a private store
	_, err = store.Open(t.Context(), store.Location{Dir: mine, URL: address})
	testkit.Fails(t, err, fail.Unauthorized, "--state-dir", address)
}

// TestPostgresKilledOperator kills one operator while it writes, and suspends another: the next one takes over, and later writes of the suspended one
// are refused.
func TestPostgresKilledOperator(t *testing.T) {
	ctx := t.Context()
	server := storetest.StartPostgres(t)
	address := server.NewDatabase(t)
	at := team(t, address)
	near := at("near")
	c := cluster(t, near, "demo")
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), store.RoleEnv+"=overwrite", store.DirEnv+"="+at("child").Dir(), store.URLEnv+"="+address)
		out := testkit.Value(cmd.StdoutPipe())(t)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line := make([]byte, 8)
		if _, err := out.Read(line); err != nil {
			t.Fatalf("%v: %s", err, &stderr)
		}
		testkit.Must(t, cmd.Process.Signal(how))
		var l store.Lease
		testkit.Until(t, time.Minute, 20*time.Millisecond, func() (err error) {
			l, err = near.AcquireLease(context.WithoutCancel(ctx), c.ID, "apply", store.LeaseOptions{})
			return err
		})
		testkit.Must(t, near.Secrets(c.ID).Put(ctx, "a", []byte("second")))
		if how == syscall.SIGSTOP {
			testkit.Must(t, cmd.Process.Signal(syscall.SIGCONT))
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the first operator went on writing")
		}
		if v := testkit.Value(near.Secrets(c.ID).Get(ctx, "a"))(t); string(v) != "second" {
			t.Errorf("after the takeover the secret became %q", v)
		}
		testkit.Must(t, l.Release(ctx))
	}
}

// TestPostgresMove moves a store from a file to a database and back.
func TestPostgresMove(t *testing.T) {
	server := storetest.StartPostgres(t)
	t.Setenv("PGPASSWORD", storetest.Password)
	dir := t.TempDir()
	moves(t, store.Location{Dir: dir}, store.Location{Dir: dir, URL: server.NewDatabase(t)})
	moves(t, store.Location{Dir: t.TempDir(), URL: server.NewDatabase(t)}, store.Location{Dir: t.TempDir()})
}

// TestPostgresRestore restores a backup of a database into another one.
func TestPostgresRestore(t *testing.T) {
	server := storetest.StartPostgres(t)
	t.Setenv("PGPASSWORD", storetest.Password)
	id := testkit.Value(age.GenerateX25519Identity())(t)
	key := archive.Key{Recipients: []string{id.Recipient().String()}, Identities: []byte(id.String())}
	restores(t, store.Location{Dir: t.TempDir(), URL: server.NewDatabase(t)}, store.Location{Dir: t.TempDir(), URL: server.NewDatabase(t)}, key, key)
}
