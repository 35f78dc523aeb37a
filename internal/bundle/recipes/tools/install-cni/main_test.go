package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstallFillsOnlyWhatIsAbsent(t *testing.T) {
	from, bin, conf := t.TempDir(), filepath.Join(t.TempDir(), "bin"), filepath.Join(t.TempDir(), "net.d")
	write(t, filepath.Join(from, "bridge"), "new bridge")
	write(t, filepath.Join(from, "flannel"), "new flannel")
	write(t, filepath.Join(from, "portmap"), "new portmap")
	write(t, filepath.Join(bin, "bridge"), "old bridge")
	if err := os.Symlink("/nowhere/in/a/container", filepath.Join(bin, "portmap")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := install(from, bin, conf); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"bridge": "old bridge", "flannel": "new flannel"} {
			if got := read(t, filepath.Join(bin, name)); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if dst, err := os.Readlink(filepath.Join(bin, "portmap")); err != nil || dst != "/nowhere/in/a/container" {
			t.Errorf("portmap: link is %q, %v", dst, err)
		}
		if got := read(t, filepath.Join(conf, "10-flannel.conflist")); got != string(conflist) {
			t.Errorf("configuration: got %q", got)
		}
	}
	info, err := os.Stat(filepath.Join(bin, "flannel"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("flannel: mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(bin, ".naupegos-*")); len(left) > 0 {
		t.Errorf("temporary files left: %v", left)
	}
}

func TestInstallNamesTheFaultAndWritesNoConfiguration(t *testing.T) {
	conf := t.TempDir()
	if err := install(filepath.Join(t.TempDir(), "absent"), t.TempDir(), conf); err == nil {
		t.Error("no error where the plugins are absent")
	}
	if left, _ := os.ReadDir(conf); len(left) > 0 {
		t.Errorf("configuration written all the same: %v", left)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
