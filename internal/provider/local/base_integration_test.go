//go:build integration

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBaseIsMade makes a base image for real, after a first attempt that is cut short and must leave nothing that counts.
func TestBaseIsMade(t *testing.T) {
	testkit.OnlyFull(t, "it makes a base image from a mirror; where the cache has none, so does every other test here")
	root := testRoot(t)
	settings := filepath.Join(root, "apt.conf")
	if err := os.WriteFile(settings, []byte(`Acquire::ftp::Proxy "http://me:not-for-machines@proxy.example:3128/";`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APT_CONFIG", settings) // in addition to the host's own
	p, err := New(Options{ClusterID: "itest-ba5eba5e", Root: root, ImageRoot: root, Cache: filepath.Join(root, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if err := p.debian().Make(short, silent{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a base image made in 8 s, or another error: %v", err)
	}
	if _, err := os.Stat(p.debian().Tar()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the interrupted attempt left an image: %v", err)
	}
	began := time.Now()
	if err := p.debian().Make(t.Context(), noted{t}); err != nil {
		t.Fatal(err)
	}
	t.Logf("base image made in %v", time.Since(began).Round(time.Second))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(p.debian().Tar()), ".tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	target := filepath.Join(root, "tree")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.debian().Unpack(t.Context(), target, noted{t}); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"usr/bin/cloud-init", "usr/sbin/sshd", "usr/sbin/haproxy", "usr/sbin/keepalived", "usr/sbin/runc", "usr/sbin/nft"} {
		if _, err := os.Stat(filepath.Join(target, tool)); err != nil {
			t.Error(err)
		}
	}
	if apt := aptOf(t, target); strings.Contains(apt, "not-for-machines") || !strings.Contains(apt, `"http://proxy.example:3128/"`) || !strings.Contains(apt, "\ndeb ") {
		t.Errorf("apt's settings in the base image:\n%s", apt)
	}
	if keep := os.Getenv("NAUPEGOS_TEST_KEEP_BASE"); keep != "" {
		if err := rootfs.CopyFile(p.debian().Tar(), keep); err != nil {
			t.Error(err)
		}
	}
}

// aptOf returns all of apt's configuration in a root file system.
func aptOf(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, "etc/apt"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString("\n" + string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
