package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/store/schema"
	"github.com/naupegos/naupegos/internal/testkit"
)

func open(t *testing.T, dir string) *database {
	t.Helper()
	s, err := openWith(t.Context(), Location{Dir: dir}, (*database).openOrMake)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newCluster(t *testing.T, s *database, name string) *Cluster {
	t.Helper()
	c, err := s.CreateCluster(t.Context(), Cluster{Name: name, Provider: "local", Document: []byte("kind: Cluster\n"), Facts: Facts{{Kind: "vip"}: "10.0.0.10"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%41", "naupegos")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, DatabaseFile), nil, 0o644)); err != nil { // readable by others
		t.Fatal(err)
	}
	s := open(t, dir)
	newCluster(t, s, "demo")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{DatabaseFile, DatabaseFile + "-wal", identityFile} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenRunsNoMigration opens a current store while another process holds the migration lock: opening must not need the lock.
func TestOpenRunsNoMigration(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	newCluster(t, first, "demo")
	unlock, err := first.d.Lock(t.Context())
	testkit.Must(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // for a busy host; the lock itself never becomes free
	defer cancel()
	s, err := Open(ctx, Location{Dir: dir})
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
}

func TestNewStoreHasTheNewestSchema(t *testing.T) {
	v, err := open(t, t.TempDir()).version(t.Context())
	if err != nil || v != schema.Version {
		t.Errorf("a new store has version %d, want %d (%v)", v, schema.Version, err)
	}
}

func TestOpenRefusesNewerSchema(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, err, fail.Refused, "newer naupegos", "99", dir)
}

func TestOpenRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DatabaseFile), []byte(strings.Repeat("this is not a database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, fail.Whole(err), fail.Internal, "damaged", DatabaseFile)
}

func TestOpenRefusesUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Location{Dir: filepath.Join(file, "naupegos")})
	testkit.Fails(t, err, fail.Refused, file, "XDG_STATE_HOME")
}

func TestIdentityIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, identityFile)
	s := open(t, dir)
	c := newCluster(t, s, "demo")
	if err := s.Secrets(c.ID).Put(t.Context(), "ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	open(t, other)
	wrong, err := os.ReadFile(filepath.Join(other, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	put := func(data []byte, mode fs.FileMode) {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.WriteFile(path, data, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}

	put(wrong, 0o600)
	_, err = Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, err, fail.Unauthorized, "not the one", path, "backup")
	put([]byte("garbage AGE-SECRET-KEY-1NOTONE"), 0o600)
	_, err = Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, err, fail.Invalid, "not an age identity", path)
	if strings.Contains(err.Error(), "NOTONE") {
		t.Error("the error shows the file's text")
	}
	put(right, 0o644)
	_, err = Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, err, fail.Refused, "0644", "chmod 600")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Location{Dir: dir})
	testkit.Fails(t, err, fail.Unauthorized, "missing", path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a new identity was made over secrets that it can't open")
	}
	if err := os.WriteFile(path, right, 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := open(t, dir).Secrets(c.ID).Get(t.Context(), "ca")
	if err != nil || string(v) != "x" {
		t.Errorf("with the right identity again: %q, %v", v, err)
	}
}

func TestIdentityMayGoWhileThereAreNoSecrets(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	c := newCluster(t, s, "demo")
	if err := s.Secrets(c.ID).Put(t.Context(), "ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if v, err := open(t, dir).Secrets(c.ID).Get(t.Context(), "ca"); err != nil || string(v) != "x" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestManyOpenAtOnce creates one new store from many goroutines, each with its own connections.
func TestManyOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			s, err := openWith(t.Context(), Location{Dir: dir}, (*database).openOrMake)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.identity.Recipient().String()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("different identities: %v", ids)
		}
	}
}

func TestWrapNamesWhatHelps(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	if _, err := b.db.Exec("PRAGMA busy_timeout = 10"); err != nil {
		t.Fatal(err)
	}
	_, err := a.inTx(t.Context(), a.db, func(*sql.Tx) error {
		_, err := b.CreateCluster(t.Context(), Cluster{Name: "demo"})
		testkit.Fails(t, fail.Whole(err), fail.Conflict, "another naupegos process", DatabaseFile)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk limits the size of the database, like a full disk.
func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	c := newCluster(t, s, "demo")
	var pages int
	if err := s.db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("PRAGMA max_page_count = 1"); err != nil { // the minimum is the present size
		t.Fatal(err)
	}
	c.Document = []byte(strings.Repeat("x", 1<<20))
	testkit.Fails(t, s.SaveCluster(t.Context(), c), fail.NotReady, "disk is full", "make room")
	if got, err := s.Cluster(t.Context(), "demo"); err != nil || string(got.Document) != "kind: Cluster\n" {
		t.Errorf("the old document is not intact: %q, %v", got.Document, err)
	}
	large := func(d *metal.Draft) error { d.Facts = c.Document; return nil }
	_, err := s.Metal().Change(t.Context(), "m", metal.How{Make: true}, large)
	testkit.Fails(t, err, fail.NotReady, "disk is full", "make room")
	if _, err := s.db.Exec("PRAGMA max_page_count = 100000"); err != nil { // there is space again
		t.Fatal(err)
	}
	testkit.Value(s.Metal().Change(t.Context(), "m", metal.How{Make: true}, large))(t)
}
