package boot_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestChangeAmongOthers changes a group while another file changes continuously: the change takes effect nevertheless.
func TestChangeAmongOthers(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "groups/a.json", `{"id": "a", "profile": "p"}`)
	write(t, dir, "profiles/p.json", `{"id": "p", "generic_id": "t"}`)
	write(t, dir, "generic/t", "old")
	d := testkit.Value(boot.OpenDirectory(dir, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended, busy := make(chan error, 1), make(chan error, 1)
	go func() { ended <- d.Watch(ctx) }()
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				busy <- nil
				return
			case <-tick.C:
				if err := os.WriteFile(filepath.Join(dir, "groups", "busy.txt"), []byte(time.Now().String()), 0o600); err != nil {
					busy <- err
					return
				}
			}
		}
	}()
	defer func() {
		stop()
		testkit.Must(t, <-busy)
		testkit.Must(t, <-ended)
	}()
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{d.Catalog}})
	for n := range 3 {
		want := fmt.Sprint("new ", n)
		write(t, dir, "generic/t", want)
		testkit.Until(t, 10*time.Second, 5*time.Millisecond, func() error {
			if code, body := get(h, "/generic"); body != want {
				return fmt.Errorf("%d: %q, not %q", code, body, want)
			}
			return nil
		})
	}
}

// TestUnreadable makes a directory unreadable and readable again, and checks what Readable reports.
func TestUnreadable(t *testing.T) {
	top := t.TempDir()
	write(t, top, "rel/groups/a.json", `{"id": "a", "profile": "p"}`)
	at := filepath.Join(top, "boot")
	testkit.Must(t, os.Symlink("rel", at))
	d := testkit.Value(boot.OpenDirectory(at, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(ctx) }()
	defer func() {
		stop()
		testkit.Must(t, <-ended)
	}()
	becomes := func(want bool) {
		t.Helper()
		testkit.Until(t, 20*time.Second, 5*time.Millisecond, func() error {
			if d.Readable() != want {
				return fmt.Errorf("readable: %v", !want)
			}
			return nil
		})
	}
	becomes(true)
	testkit.Must(t, os.Symlink("absent", at+".new"))
	testkit.Must(t, os.Rename(at+".new", at))
	becomes(false)
	testkit.Must(t, os.Symlink("rel", at+".new"))
	testkit.Must(t, os.Rename(at+".new", at))
	becomes(true)
}

// TestAssetWithNUL requests names that no file can have.
func TestAssetWithNUL(t *testing.T) {
	h := boot.Handler(boot.Options{Assets: boot.AssetsOf(t.TempDir())})
	for _, name := range []string{"a.txt%00", "%00", "a%00b/c"} {
		if code, _ := get(h, "/assets/"+name); code != http.StatusNotFound {
			t.Errorf("%s: %d", name, code)
		}
	}
}
