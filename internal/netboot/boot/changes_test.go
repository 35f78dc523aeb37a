package boot

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// files writes files into a directory.
func files(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// followed serves a directory with a poll interval, and returns a function that waits for an answer of /generic.
func followed(t *testing.T, dir string, poll time.Duration) func(want string) {
	t.Helper()
	d := testkit.Value(OpenDirectory(dir, slog.New(slog.DiscardHandler)))(t)
	d.poll = poll
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(t.Context()) }()
	t.Cleanup(func() { testkit.Must(t, <-ended) })
	h := Handler(Options{Catalogs: []*Catalog{d.Catalog}})
	return func(want string) {
		t.Helper()
		testkit.Until(t, 30*time.Second, 5*time.Millisecond, func() error {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/generic", nil))
			if got := w.Body.String(); got != want {
				return fmt.Errorf("%d: %q, not %q", w.Code, got, want)
			}
			return nil
		})
	}
}

var group = map[string]string{"groups/a.json": `{"id": "a", "profile": "p"}`, "profiles/p.json": `{"id": "p", "generic_id": "t"}`}

// switched replaces a link.
func switched(t *testing.T, at, to string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	testkit.Must(t, os.Symlink(to, at+".new"))
	testkit.Must(t, os.Rename(at+".new", at))
}

// TestLinksInside changes the targets of links in boot/, without a poll: in place, by rename, and by a link on the path.
func TestLinksInside(t *testing.T) {
	dir := t.TempDir()
	files(t, dir, group)
	files(t, dir, map[string]string{"shared/t": "one", "releases/1/deep/t": "first", "releases/2/deep/t": "second"})
	switched(t, filepath.Join(dir, "generic/t"), "../shared/t")
	answers := followed(t, dir, time.Hour)
	answers("one")
	files(t, dir, map[string]string{"shared/t": "two"})
	answers("two")
	files(t, dir, map[string]string{"shared/t.new": "three"})
	testkit.Must(t, os.Rename(filepath.Join(dir, "shared/t.new"), filepath.Join(dir, "shared/t")))
	answers("three")
	switched(t, filepath.Join(dir, "releases/current"), "1")
	switched(t, filepath.Join(dir, "generic/t"), "../releases/current/deep/t")
	answers("first")
	switched(t, filepath.Join(dir, "releases/current"), "2")
	answers("second")
	files(t, dir, map[string]string{"releases/2/deep/t": "second, changed"})
	answers("second, changed")
	switched(t, filepath.Join(dir, "generic/t"), "../later/t") // it does not exist yet
	answers("404 page not found\n")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "later"), 0o755))
	files(t, dir, map[string]string{"later/t": "late"})
	answers("late")
	testkit.Must(t, os.RemoveAll(filepath.Join(dir, "generic")))
	switched(t, filepath.Join(dir, "generic"), "releases/current/deep")
	answers("second, changed")
	switched(t, filepath.Join(dir, "releases/current"), "1")
	answers("first")
	files(t, dir, map[string]string{"releases/1/deep/t": "first, changed"})
	answers("first, changed")
}

// TestSilentChanges changes a file through a memory mapping. The kernel reports no event for that, as for changes by another host on NFS.
func TestSilentChanges(t *testing.T) {
	dir := t.TempDir()
	files(t, dir, group)
	files(t, dir, map[string]string{"generic/t": "one"})
	answers := followed(t, dir, 50*time.Millisecond)
	answers("one")
	files(t, dir, map[string]string{"generic/t": "two"})
	answers("two") // the watch has begun by now
	f := testkit.Value(os.OpenFile(filepath.Join(dir, "generic/t"), os.O_RDWR, 0))(t)
	defer func() { testkit.Must(t, f.Close()) }()
	data := testkit.Value(syscall.Mmap(int(f.Fd()), 0, 3, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))(t)
	defer func() { testkit.Must(t, syscall.Munmap(data)) }()
	copy(data, "six")
	answers("six")
}
