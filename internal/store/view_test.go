package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestView makes nothing where there is no store, and shows the one that is there.
func TestView(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "a", "store")
	s, err := View(ctx, Location{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := s.Clusters(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if runs, err := s.Runs(ctx, "", 0); err != nil || len(runs) != 0 {
		t.Errorf("%v, %v", runs, err)
	}
	if _, err := s.Cluster(ctx, "demo"); fail.KindOf(err) != fail.NotFound || !strings.Contains(fail.Whole(err).Error(), dir) {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Error("a directory was made")
	}
	made, err := Open(ctx, Location{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = made.CreateCluster(ctx, Cluster{Name: "demo"})
	if err := errors.Join(err, made.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = View(ctx, Location{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Cluster(ctx, "demo"); err != nil {
		t.Error(err)
	}
}

// TestOtherOwner names whom a store belongs to that can't be used.
func TestOtherOwner(t *testing.T) {
	path, owner := "/root/no/such/store", "root"
	if os.Geteuid() == 0 {
		path, owner = filepath.Join(t.TempDir(), "store"), "nobody"
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := refused(fs.ErrPermission, filepath.Join(path, DatabaseFile), "open the store"); !strings.Contains(err.Error(), "it belongs to "+owner) {
		t.Error(err)
	}
	if err := refused(fs.ErrPermission, t.TempDir(), "open the store"); strings.Contains(err.Error(), "belongs") {
		t.Error(err)
	}
}

// TestEmptied refuses a database that lost its contents and still has an identity, and leaves all files as they are.
func TestEmptied(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(ctx, Location{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, wal := filepath.Join(dir, DatabaseFile), filepath.Join(dir, DatabaseFile+"-wal")
	open := map[string]func(context.Context, Location) (Store, error){
		"view": View, "open": func(ctx context.Context, at Location) (Store, error) { return Open(ctx, at) },
	}
	for name, do := range open {
		for _, content := range []string{"", strings.Repeat("\x00", 8192)} {
			if err := errors.Join(os.WriteFile(db, []byte(content), 0o600), os.WriteFile(wal, []byte("changes"), 0o600)); err != nil {
				t.Fatal(err)
			}
			s, err := do(ctx, Location{Dir: dir})
			if err == nil {
				t.Errorf("%s: %d zero bytes are a store", name, len(content))
				_ = s.Close()
				continue
			}
			if content == "" && (fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "naupegos store restore")) {
				t.Errorf("%s: %v", name, err)
			}
			if now, err := os.ReadFile(db); err != nil || string(now) != content {
				t.Errorf("%s: the database changed: %d bytes, %v", name, len(now), err)
			}
			if now, err := os.ReadFile(wal); content == "" && (err != nil || string(now) != "changes") {
				t.Errorf("%s: the write-ahead log changed: %q, %v", name, now, err)
			}
		}
	}
	// A first start that was killed leaves an empty file and no identity.
	if err := errors.Join(os.Remove(filepath.Join(dir, identityFile)), os.WriteFile(db, nil, 0o600), os.Remove(wal)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if s, err = Open(ctx, Location{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestViewOfAFile refuses a state directory that is a file or lies below one.
func TestViewOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		s, err := View(context.Background(), Location{Dir: dir})
		if err == nil {
			_ = s.Close()
		}
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "make it a directory") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
