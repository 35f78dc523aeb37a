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
	if _, err := s.Cluster(ctx, "demo"); fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), dir) {
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
	if err := refused(fs.ErrPermission, filepath.Join(path, dbFile), "open the store"); !strings.Contains(err.Error(), "it belongs to "+owner) {
		t.Error(err)
	}
	if err := refused(fs.ErrPermission, t.TempDir(), "open the store"); strings.Contains(err.Error(), "belongs") {
		t.Error(err)
	}
}
