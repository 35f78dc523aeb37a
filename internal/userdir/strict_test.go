package userdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStrict: a directory, or one of its files, that another user could replace is refused with what to do; ordinary ones are not.
func TestStrict(t *testing.T) {
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		change func(dir string) error
		want   []string // nil: fine
		root   bool     // needs root
	}{
		"a user's own":           {change: func(string) error { return nil }},
		"nothing there yet":      {change: os.RemoveAll},
		"a umask of 002":         {change: func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o775) }},
		"a link to one's own":    {change: link("own", 0o755)},
		"a link of one's own":    {change: link("store/own", 0o755)},
		"files of one's own":     {change: func(dir string) error { return os.WriteFile(filepath.Join(dir, "naupegos.db"), nil, 0o644) }},
		"everybody's":            {change: func(dir string) error { return os.Chmod(dir, 0o777) }, want: []string{"/a/state", "by all users (mode 0777)", "chmod o-w"}},
		"around it everybody's":  {change: func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, want: []string{"/a:", "by all users"}},
		"sticky around it":       {change: func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky) }},
		"an identity for all":    {change: func(dir string) error { return file(dir, "identity.age", 0o666) }, want: []string{"identity.age", "by all users (mode 0666)"}},
		"a link to everybody's":  {change: link("shared", 0o777), want: []string{"/shared:", "by all users"}},
		"another user's":         {change: func(dir string) error { return os.Chown(dir, 12345, 12345) }, want: []string{"/a/state", "belongs to user 12345", "chown -h 0"}, root: true},
		"around it another's":    {change: func(dir string) error { return os.Chown(filepath.Dir(dir), 12345, 12345) }, want: []string{"belongs to user 12345"}, root: true},
		"another's file":         {change: func(dir string) error { return os.Chown(testFile(dir), 12345, 12345) }, want: []string{"naupegos.db", "belongs to user 12345"}, root: true},
		"another's link":         {change: func(dir string) error { return anothersLink(dir) }, want: []string{"identity.age", "belongs to user 12345"}, root: true},
		"a group that is shared": {change: func(dir string) error { return shared(dir) }, want: []string{"by group 12345 (mode 0770)", "chmod g-w"}, root: true},
		"links without an end":   {change: func(dir string) error { return os.Symlink("identity.age", filepath.Join(dir, "identity.age")) }, want: []string{"follow the link"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && !root {
				t.Skip("needs root")
			}
			dir := filepath.Join(t.TempDir(), "a", "state")
			testkit.Must(t, os.MkdirAll(dir, 0o700))
			testkit.Must(t, c.change(dir))
			err := Strict(dir, "naupegos.db", "identity.age")
			if c.want == nil {
				testkit.Must(t, err)
				return
			}
			testkit.Fails(t, err, fail.Refused, c.want...)
		})
	}
}

func file(dir, name string, mode os.FileMode) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Chmod(f.Name(), mode)
}

func testFile(dir string) string {
	_ = file(dir, "naupegos.db", 0o600)
	return filepath.Join(dir, "naupegos.db")
}

// link moves the store into another directory of some mode, below that of the state directory, and leaves a link.
func link(to string, mode os.FileMode) func(dir string) error {
	return func(dir string) error {
		there := filepath.Join(filepath.Dir(filepath.Dir(dir)), strings.ReplaceAll(to, "store", "b"))
		if err := os.MkdirAll(there, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(there, mode); err != nil {
			return err
		}
		if err := file(there, "real.db", 0o600); err != nil {
			return err
		}
		return os.Symlink(filepath.Join("..", "..", strings.ReplaceAll(to, "store", "b"), "real.db"), filepath.Join(dir, "naupegos.db"))
	}
}

func anothersLink(dir string) error {
	if err := file(dir, "real", 0o600); err != nil {
		return err
	}
	at := filepath.Join(dir, "identity.age")
	if err := os.Symlink("real", at); err != nil {
		return err
	}
	return os.Lchown(at, 12345, 12345)
}

func shared(dir string) error {
	if err := os.Chown(dir, 0, 12345); err != nil {
		return err
	}
	return os.Chmod(dir, 0o770)
}
