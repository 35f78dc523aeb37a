package boot_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

// linked creates a data directory whose files of every kind are links: /assets/…/in leads to a file inside, …/out and …/absolute lead to the
// returned secret file.
func linked(t *testing.T) (dir, secret string) {
	top := t.TempDir()
	dir, secret = filepath.Join(top, "data"), filepath.Join(top, "secret")
	testkit.Must(t, os.WriteFile(secret, []byte(testkit.Secret), 0o600))
	write(t, dir, "groups/all.json", `{"id": "all", "profile": "in"}`)
	write(t, dir, "shared/group.json", `{"id": "in", "profile": "in", "selector": {"kind": "in"}}`)
	write(t, dir, "shared/profile.json", `{"id": "in", "generic_id": "in"}`)
	write(t, dir, "shared/text", "inside")
	for sub, shared := range map[string]string{"groups": "group.json", "profiles": "profile.json", "ignition": "text", "cloud": "text", "generic": "text", "assets": "text"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
		end := ""
		if filepath.Ext(shared) == ".json" {
			end = ".json"
		}
		testkit.Must(t, os.Symlink("../shared/"+shared, filepath.Join(dir, sub, "in"+end)))
		testkit.Must(t, os.Symlink("../../secret", filepath.Join(dir, sub, "out"+end)))
		testkit.Must(t, os.Symlink(secret, filepath.Join(dir, sub, "absolute"+end)))
		testkit.Must(t, syscall.Mkfifo(filepath.Join(dir, sub, "fifo"+end), 0o644))
	}
	return dir, secret
}

// TestLinksThatLeadOut reads and imports a directory with links of every kind: links that stay inside work, and the others are reported by name.
func TestLinksThatLeadOut(t *testing.T) {
	dir, _ := linked(t)
	cfg, problems, err := boot.ReadDir(dir)
	testkit.Must(t, err)
	if _, there := cfg.Groups["in"]; !there || cfg.Profiles["in"].GenericID != "in" || cfg.Generic["in"] != "inside" || cfg.Ignition["in"] != "inside" || cfg.Cloud["in"] != "inside" {
		t.Errorf("links inside are not followed: %+v", cfg)
	}
	plan := testkit.Value(boot.PlanImport(dir, "", filepath.Join(t.TempDir(), "boot")))(t)
	read := make([]string, 0, len(problems))
	for _, p := range problems {
		read = append(read, p.Error())
	}
	for where, said := range map[string][]string{"read": read, "import": plan.Problems} {
		for _, sub := range []string{"groups/%s.json", "profiles/%s.json", "ignition/%s", "cloud/%s", "generic/%s", "assets/%s"} {
			if where == "read" && sub == "assets/%s" {
				continue // the handler opens these
			}
			for name, why := range map[string]string{"out": "leads out", "absolute": "leads out", "fifo": "not a regular file"} {
				name = fmt.Sprintf(sub, name)
				if !slices.ContainsFunc(said, func(p string) bool { return strings.HasPrefix(p, name+": ") && strings.Contains(p, why) }) {
					t.Errorf("%s: %s is not refused by name:\n%s", where, name, strings.Join(said, "\n"))
				}
			}
		}
	}
	if all := fmt.Sprint(cfg, read, plan); strings.Contains(all, testkit.Secret) {
		t.Errorf("a link was followed: %s", all)
	}
}

// TestImportCopiesNothingFromOutside imports twice: into a new directory, and into one that contains links to the outside.
func TestImportCopiesNothingFromOutside(t *testing.T) {
	from, secret := linked(t)
	to := filepath.Join(t.TempDir(), "boot")
	testkit.Must(t, testkit.Value(boot.PlanImport(from, "", to))(t).Run(t.Context(), false))
	testkit.Must(t, os.Remove(filepath.Join(to, "generic/in")))
	testkit.Must(t, os.Symlink(secret, filepath.Join(to, "generic/in")))
	plan := testkit.Value(boot.PlanImport(from, filepath.Join(from, "assets"), to))(t)
	if !slices.Contains(plan.Changed, "generic/in") {
		t.Errorf("the target's link is taken for a file: %+v", plan)
	}
	testkit.Must(t, plan.Run(t.Context(), true))
	testkit.Must(t, filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if data := testkit.Value(os.ReadFile(path))(t); strings.Contains(string(data), testkit.Secret) || !e.Type().IsRegular() {
				t.Errorf("%s was imported", path)
			}
		}
		return err
	}))
	if data := testkit.Value(os.ReadFile(secret))(t); string(data) != testkit.Secret {
		t.Errorf("the import has written through a link: %q", data)
	}
	testkit.Must(t, os.RemoveAll(filepath.Join(to, "generic")))
	testkit.Must(t, os.Symlink(filepath.Dir(secret), filepath.Join(to, "generic")))
	plan = testkit.Value(boot.PlanImport(from, "", to))(t)
	testkit.Fails(t, plan.Run(t.Context(), true), fail.Refused, "generic", "leads out")
}

// TestDirectoriesThatLeadOut: a directory that is a link to the outside is not read, and the others are.
func TestDirectoriesThatLeadOut(t *testing.T) {
	for _, sub := range []string{"groups", "profiles", "ignition", "cloud", "generic"} {
		dir, secret := linked(t)
		testkit.Must(t, os.RemoveAll(filepath.Join(dir, sub)))
		testkit.Must(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, sub)))
		_, problems, err := boot.ReadDir(dir)
		testkit.Must(t, err)
		if !slices.ContainsFunc(problems, func(p boot.Problem) bool { return p.File == sub && strings.Contains(p.Error(), "leads out") }) {
			t.Errorf("%s is not named: %v", sub, problems)
		}
	}
}

// TestAssetsStayInside: requests for anything except an asset get 404, and directories are not listed.
func TestAssetsStayInside(t *testing.T) {
	dir, _ := linked(t)
	write(t, dir, "assets/deep/kernel", "a kernel")
	write(t, dir, "assets/index/index.html", "a page")
	testkit.Must(t, os.Symlink("../../../secret", filepath.Join(dir, "assets/deep/out")))
	testkit.Must(t, os.Symlink("deep/kernel", filepath.Join(dir, "assets/newest")))
	testkit.Must(t, os.Symlink("../..", filepath.Join(dir, "assets/up")))
	h := boot.Handler(boot.Options{Assets: boot.AssetsOf(dir)})
	for _, path := range []string{"/assets/", "/assets/deep", "/assets/deep/", "/assets/out", "/assets/absolute", "/assets/fifo", "/assets/deep/out", "/assets/up/secret", "/assets/../secret",
		"/assets/..%2fsecret", "/assets//etc/passwd", "/assets/none", "/assets/deep/kernel/x"} {
		if code, body := get(h, path); code != http.StatusNotFound && code != http.StatusMovedPermanently && code != http.StatusTemporaryRedirect || strings.Contains(body, testkit.Secret) || strings.Contains(body, "kernel") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for path, want := range map[string]string{"/assets/newest": "a kernel", "/assets/deep/kernel": "a kernel", "/assets/in": "inside", "/assets/index/": "a page"} {
		if code, body := get(h, path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	testkit.Must(t, os.RemoveAll(filepath.Join(dir, "assets")))
	testkit.Must(t, os.Symlink("..", filepath.Join(dir, "assets")))
	if code, body := get(h, "/assets/secret"); code != http.StatusNotFound {
		t.Errorf("assets that lie elsewhere: %d %s", code, body)
	}
}

// TestLinkSwitch replaces the link that is the boot directory, as deployments do: templates and assets change together, and changes in the new
// directory are followed. Changes of an unrelated file next to the link cause no reads.
func TestLinkSwitch(t *testing.T) {
	top := t.TempDir()
	for _, n := range []string{"1", "2"} {
		write(t, top, "rel/"+n+"/groups/a.json", `{"id": "a", "profile": "p"}`)
		write(t, top, "rel/"+n+"/profiles/p.json", `{"id": "p", "generic_id": "t"}`)
		write(t, top, "rel/"+n+"/generic/t", "release "+n)
		write(t, top, "rel/"+n+"/assets/kernel", "kernel "+n)
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(top, "state"), 0o755))
	at := filepath.Join(top, "state", "boot")
	testkit.Must(t, os.Symlink("../rel/1", at))
	d := testkit.Value(boot.OpenDirectory(at, slog.New(slog.DiscardHandler)))(t)
	watch(t, d)
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{d.Catalog}, Assets: boot.AssetsOf(at)})
	answers := func(path, want string) {
		t.Helper()
		testkit.Until(t, 20*time.Second, 5*time.Millisecond, func() error {
			if code, body := get(h, path); body != want {
				return fmt.Errorf("%d: %q, not %q", code, body, want)
			}
			return nil
		})
	}
	answers("/generic", "release 1")
	for _, n := range []string{"2", "1", "2"} {
		testkit.Must(t, os.Symlink("../rel/"+n, at+".new"))
		testkit.Must(t, os.Rename(at+".new", at))
		answers("/generic", "release "+n)
		answers("/assets/kernel", "kernel "+n)
	}
	write(t, top, "rel/2/generic/t", "release 2, changed")
	answers("/generic", "release 2, changed")
}
