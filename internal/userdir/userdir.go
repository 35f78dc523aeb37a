// Package userdir finds and makes the directories of the user who runs the program, as the XDG Base Directory Specification places them.
//
// It does not depend on what the directories hold.
package userdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// Config returns $XDG_CONFIG_HOME/naupegos, or ~/.config/naupegos. It fails with fail.Refused if there is neither.
func Config() (string, error) { return of("XDG_CONFIG_HOME", ".config") }

// State returns $XDG_STATE_HOME/naupegos, or ~/.local/state/naupegos. It fails with fail.Refused if there is neither.
func State() (string, error) { return of("XDG_STATE_HOME", ".local/state") }

// Cache returns $XDG_CACHE_HOME/naupegos, or ~/.cache/naupegos. It fails with fail.Refused if there is neither.
func Cache() (string, error) { return of("XDG_CACHE_HOME", ".cache") }

// of ignores a relative path in the variable, as the specification demands.
func of(variable, below string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "naupegos"), nil
	}
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) { // files would lie in another place with each current directory
		err = fmt.Errorf("$HOME is %q, which is no absolute path", home)
	}
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "find the directory naupegos below $%s", variable).Do("set HOME, or set %s to an absolute path", variable)
	}
	return filepath.Join(home, below, "naupegos"), nil
}

// Make makes a directory and its missing parents. If root makes parents in a user's home (sudo -E), they belong to the user; the directory itself is
// root's.
func Make(dir string, mode fs.FileMode) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var missing []string
	at := dir
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, at)
	}
	owner, err := Owner(at)
	if os.Geteuid() != 0 || len(missing) < 2 || err != nil || owner.Uid == 0 {
		return os.MkdirAll(dir, mode)
	}
	for _, parent := range slices.Backward(missing[1:]) {
		if err := makeFor(parent, mode, owner); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, mode)
}

// makeFor makes one directory for its owner, who may change everything around it meanwhile: it changes no other file's owner.
func makeFor(dir string, mode fs.FileMode, owner *syscall.Stat_t) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(dir)
	if err := root.Mkdir(name, mode); err != nil {
		if errors.Is(err, fs.ErrExist) { // another command made it
			return nil
		}
		return err
	}
	made, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(made.Chown(int(owner.Uid), int(owner.Gid)), made.Close())
}

// Owner returns who owns a file or directory, or its nearest parent that exists.
func Owner(path string) (*syscall.Stat_t, error) {
	for {
		info, err := os.Stat(path)
		if err == nil {
			owner, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil, errors.ErrUnsupported
			}
			return owner, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return nil, err
		}
		path = parent
	}
}

// OtherOwner names the owner of path, or of the nearest directory around it that can be looked at, unless that is this user.
func OtherOwner(path string) (name string, known bool) {
	st, err := Owner(path)
	if err != nil || int(st.Uid) == os.Geteuid() {
		return "", false
	}
	id := strconv.Itoa(int(st.Uid))
	u, err := user.LookupId(id)
	if err != nil {
		return "user " + id, true
	}
	return u.Username, true
}
