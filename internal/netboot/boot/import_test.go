package boot_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestImportTimesAndDirectories: files keep their modification times, which clients send in If-Modified-Since, and empty directories of assets
// are created.
func TestImportTimesAndDirectories(t *testing.T) {
	for _, separate := range []bool{false, true} {
		from, to := t.TempDir(), filepath.Join(t.TempDir(), "boot")
		assets, option := filepath.Join(from, "assets"), ""
		if separate {
			assets = t.TempDir()
			option = assets
		}
		old := time.Date(2019, 3, 4, 5, 6, 7, 0, time.UTC)
		for path, content := range map[string]string{from + "/groups/a.json": `{"profile":"a"}`, from + "/profiles/a.json": `{"id":"a"}`, assets + "/linux/6.1/vmlinuz": "kernel"} {
			testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testkit.Must(t, os.WriteFile(path, []byte(content), 0o644))
			testkit.Must(t, os.Chtimes(path, old, old))
		}
		for _, dir := range []string{"empty", "linux/next", "a/b/c"} {
			testkit.Must(t, os.MkdirAll(filepath.Join(assets, dir), 0o755))
		}
		plan := testkit.Value(boot.PlanImport(from, option, to))(t)
		slices.Sort(plan.New)
		if d := cmp.Diff([]string{"assets/a/b/c/", "assets/empty/", "assets/linux/6.1/vmlinuz", "assets/linux/next/", "groups/a.json", "profiles/a.json"}, plan.New); d != "" {
			t.Error(d)
		}
		testkit.Must(t, plan.Run(t.Context(), false))
		for _, dir := range []string{"empty", "linux/next", "a/b/c"} {
			if info := testkit.Value(os.Stat(filepath.Join(to, "assets", dir)))(t); !info.IsDir() {
				t.Errorf("%s is no directory", dir)
			}
		}
		for _, file := range []string{"assets/linux/6.1/vmlinuz", "groups/a.json"} {
			if info := testkit.Value(os.Stat(filepath.Join(to, file)))(t); !info.ModTime().Equal(old) {
				t.Errorf("%s is of %s", file, info.ModTime())
			}
		}
		testkit.Must(t, os.Chtimes(filepath.Join(to, "groups/a.json"), time.Now(), time.Now())) // as an interrupted or older import leaves it
		testkit.Must(t, testkit.Value(boot.PlanImport(from, option, to))(t).Run(t.Context(), false))
		if info := testkit.Value(os.Stat(filepath.Join(to, "groups/a.json")))(t); !info.ModTime().Equal(old) {
			t.Errorf("it is of %s after another import", info.ModTime())
		}
		if again := testkit.Value(boot.PlanImport(from, option, to))(t); len(again.New)+len(again.Changed) > 0 || again.Same != 6 {
			t.Errorf("there is more to do: %+v", again)
		}
	}
}

// TestImportProblemsAreLines: each problem is a single line without trailing blanks.
func TestImportProblemsAreLines(t *testing.T) {
	from := t.TempDir()
	for path, content := range map[string]string{
		"groups/a.json": `{"profile":"a"}`, "profiles/a.json": `{"id":"a","ignition_id":"a.ign"}`, "profiles/b.json": `{"id":"b","ignition_id":"b.bu"}`, "profiles/c.json": `{"id":"c","ignition_id":"c.ign"}`,
		"ignition/a.ign": `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"relative"},{"path":""}]}}`, "ignition/b.bu": "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: relative\n    - pathh: /x\n",
		"ignition/c.ign": `{"ignition":{"version":"3.5.0"},"storage":{"disks":[{"device":"sda"}],"files":[{"path":"relative"}]}}`,
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(from, path), []byte(content), 0o644))
	}
	plan := testkit.Value(boot.PlanImport(from, "", t.TempDir()))(t)
	if len(plan.Problems) == 0 {
		t.Error("there are no problems")
	}
	for _, p := range plan.Problems {
		if strings.Contains(p, "\n") || strings.TrimSpace(p) != p {
			t.Errorf("%q", p)
		}
	}
}
