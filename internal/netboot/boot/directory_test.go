package boot_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o644))
}

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// watch follows a directory until the test ends.
func watch(t *testing.T, d *boot.Directory) {
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(t.Context()) }()
	t.Cleanup(func() { testkit.Must(t, <-ended) }) // after the end of t.Context
}

// TestDirectoryIsFollowed changes files while a handler serves them, also in directories that did not exist at first.
func TestDirectoryIsFollowed(t *testing.T) {
	dir := t.TempDir()
	d := testkit.Value(boot.OpenDirectory(dir, slog.New(slog.DiscardHandler)))(t)
	watch(t, d)
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{d.Catalog}})
	answers := func(want string) {
		t.Helper()
		testkit.Until(t, 10*time.Second, 5*time.Millisecond, func() error {
			if code, body := get(h, "/generic?mac=52-54-00-00-00-01"); body != want {
				return fmt.Errorf("%d: %q, not %q", code, body, want)
			}
			return nil
		})
	}
	answers("404 page not found\n")
	write(t, dir, "groups/a.json", `{"id": "a", "profile": "p", "metadata": {"x": 1}}`)
	write(t, dir, "profiles/p.json", `{"id": "p", "generic_id": "deep/er/a.txt"}`)
	write(t, dir, "generic/deep/er/a.txt", `x is {{.x}}`)
	answers("x is 1")
	write(t, dir, "generic/deep/er/a.txt", `now x is {{.x}}`)
	answers("now x is 1")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "b"), []byte(`{"id": "b", "profile": "p", "metadata": {"x": 2}, "selector": {"mac": "525400000001"}}`), 0o644))
	testkit.Must(t, os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "groups/b.json")))
	write(t, dir, "groups/b.json", `{"id": "b", "profile": "p", "metadata": {"x": 2}, "selector": {"mac": "52:54:00:00:00:01"}}`)
	answers("now x is 2")
	testkit.Must(t, os.Remove(filepath.Join(dir, "groups/b.json")))
	answers("now x is 1")
}

func TestDirectoryThatIsNone(t *testing.T) {
	_, err := boot.OpenDirectory(filepath.Join(t.TempDir(), "absent"), slog.New(slog.DiscardHandler))
	testkit.Fails(t, err, fail.NotFound, "absent")
}

// TestCatalogsTogether boots a machine of the registry with a profile of the operator's files.
func TestCatalogsTogether(t *testing.T) {
	files, registry := boot.NewCatalog(), boot.NewCatalog()
	files.Replace(boot.Config{
		Groups:   map[string]boot.Group{"all": {ID: "all", Profile: "discover"}, "site": {ID: "site", Profile: "site", Selector: map[string]string{"site": "b"}}},
		Profiles: map[string]boot.Profile{"discover": {ID: "discover", Boot: &boot.Kernel{Kernel: "discover"}}, "site": {ID: "site", Boot: &boot.Kernel{Kernel: "site"}}, "worker": {ID: "worker", Boot: &boot.Kernel{Kernel: "of-files"}}},
	})
	testkit.Must(t, registry.Put("m1", boot.Group{ID: "m1", Profile: "worker", Selector: map[string]string{"uuid": "1"}}))
	testkit.Must(t, registry.Put("m2", boot.Group{ID: "m2", Profile: "nowhere", Selector: map[string]string{"uuid": "2"}}))
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{registry, files}})
	for query, kernel := range map[string]string{"?uuid=1": "kernel of-files", "?uuid=3": "kernel discover", "": "kernel discover", "?site=b": "kernel site", "?uuid=2": "404"} {
		if _, body := get(h, "/ipxe"+query); !strings.Contains(body, kernel+"\n") && !strings.HasPrefix(body, kernel) {
			t.Errorf("%s: %q, not %s", query, body, kernel)
		}
	}
	registry.Remove("m1")
	if _, body := get(h, "/ipxe?uuid=1"); !strings.Contains(body, "discover") {
		t.Errorf("a machine that was forgotten gets %q", body)
	}
}

func TestImportIsRepeatable(t *testing.T) {
	to := t.TempDir()
	plan := testkit.Value(boot.PlanImport("testdata/rack", "", to))(t)
	if len(plan.New) < 60 || len(plan.Changed)+plan.Same != 0 || plan.Groups < 20 {
		t.Fatalf("the import is %+v", plan)
	}
	for _, want := range []string{"groups/broken.json: ", "groups/badmac.json: ", "profiles/profilenoid.json: ", "ignition/bad.ign: ", "profiles/badtemplate.json: there is no file cloud/nowhere.yaml",
		`groups/noprofile.json: there is no profile "missing"`, "ignition/template.yaml: "} {
		if !strings.Contains(strings.Join(plan.Problems, "\n"), want) {
			t.Errorf("%s is not reported:\n%s", want, strings.Join(plan.Problems, "\n"))
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	testkit.Fails(t, plan.Run(ctx, false), fail.Interrupted, "continues")
	testkit.Must(t, plan.Run(t.Context(), false))
	again := testkit.Value(boot.PlanImport("testdata/rack", "", to))(t)
	if again.Same != len(plan.New) || len(again.New)+len(again.Changed) != 0 {
		t.Fatalf("the second import is %+v", again)
	}
	write(t, to, "groups/default.json", "{}")
	again = testkit.Value(boot.PlanImport("testdata/rack", "", to))(t)
	testkit.Fails(t, again.Run(t.Context(), false), fail.Conflict, "groups/default.json", "--replace")
	testkit.Must(t, again.Run(t.Context(), true))
	if left := testkit.Value(os.ReadDir(to))(t); len(left) != 6 {
		t.Errorf("in the directory lie %v", left)
	}
}

func TestImportOfSomethingElse(t *testing.T) {
	_, err := boot.PlanImport(t.TempDir(), "", t.TempDir())
	testkit.Fails(t, err, fail.Invalid, "-data-path")
	_, err = boot.PlanImport("testdata/absent", "", t.TempDir())
	testkit.Fails(t, err, fail.Invalid, "testdata/absent")
	_, err = boot.PlanImport("testdata/rack", "testdata/absent", t.TempDir())
	if testkit.Fails(t, err, fail.Invalid, "assets"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestNewerIgnition serves an Ignition config of a newer specification than matchbox supports.
func TestNewerIgnition(t *testing.T) {
	c := boot.NewCatalog()
	problems := c.Replace(boot.Config{
		Groups:   map[string]boot.Group{"a": {Profile: "p"}},
		Profiles: map[string]boot.Profile{"p": {ID: "p", IgnitionID: "a.ign"}},
		Ignition: map[string]string{"a.ign": `{"ignition": {"version": "3.5.0"}}`},
	})
	if _, body := get(boot.Handler(boot.Options{Catalogs: []*boot.Catalog{c}}), "/ignition"); !strings.Contains(body, `"version":"3.5.0"`) || len(problems) > 0 {
		t.Errorf("%s %v", body, problems)
	}
}

// TestFallback: only machines without a group get the fallback's profile.
func TestFallback(t *testing.T) {
	c := boot.NewCatalog()
	c.Replace(boot.Config{
		Groups: map[string]boot.Group{"a": {ID: "a", Profile: "own", Selector: map[string]string{"mac": "52:54:00:00:00:01"}}},
		Profiles: map[string]boot.Profile{"own": {ID: "own", Boot: &boot.Kernel{Kernel: "/own"}}, "look": {ID: "look", Boot: &boot.Kernel{Kernel: "/look", Args: []string{"BOOTIF=01-${mac:hexhyp}"}}},
			"disk": {ID: "disk", Boot: &boot.Kernel{Disk: true}}},
	})
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{c}, Fallback: func(_ context.Context, labels map[string]string) string { return labels["want"] }})
	for query, want := range map[string]string{"mac=52-54-00-00-00-01&want=look": "kernel /own", "want=look": "kernel /look BOOTIF=01-${mac:hexhyp}", "want=disk": "sanboot", "want=gone": "404", "mac=52-54-00-00-00-02": "404"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/ipxe?"+query, nil))
		if got := fmt.Sprint(w.Code, w.Body.String()); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/grub?want=disk", nil))
	if w.Body.String() != "exit\n" {
		t.Errorf("GRUB gets %q", w.Body)
	}
}
