package rootfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Tweaks are changes to a root file system.
type Tweaks struct {
	Remove []string          // globs
	Mask   []string          // systemd units that must not start
	Links  map[string]string // path → target
	Files  map[string]string // path → content, mode 0644
	Dirs   []string
}

// Apply makes the changes below root. It may be called again.
func (t Tweaks) Apply(root string) error {
	for _, g := range t.Remove {
		if err := RemoveGlob(filepath.Join(root, g)); err != nil {
			return err
		}
	}
	for _, d := range t.Dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, u := range t.Mask {
		if err := symlink("/dev/null", filepath.Join(root, "etc/systemd/system", u)); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(t.Links)) {
		if err := symlink(t.Links[path], filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(t.Files)) {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be a link
			return err
		}
		if err := os.WriteFile(file, []byte(t.Files[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func symlink(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}
