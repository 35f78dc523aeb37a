package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Source provides the machine's variables and files to this package.
type Source struct {
	Getenv   func(name string) string
	ReadFile func(path string) ([]byte, error)
	Home     func() (string, error)
}

// System reads the variables and files of this process.
func System() Source {
	return Source{Getenv: os.Getenv, ReadFile: os.ReadFile, Home: os.UserHomeDir}
}

// firstOf returns the value of the first variable that is set.
func (s Source) firstOf(names ...string) string {
	for _, n := range names {
		if v := s.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// expand resolves a leading ~ like a shell.
func (s Source) expand(path string) (string, error) {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path, nil
	}
	home, err := s.Home()
	return filepath.Join(home, path[1:]), err
}

// dirs lists the directories that openstacksdk searches, in order.
func (s Source) dirs() []string {
	out := []string{"."}
	if x := s.Getenv("XDG_CONFIG_HOME"); x != "" {
		out = append(out, filepath.Join(x, "openstack"))
	}
	if home, err := s.Home(); err == nil {
		out = append(out, filepath.Join(home, ".config", "openstack"))
	}
	return append(out, "/etc/xdg/openstack", "/etc/openstack")
}

// endings are the extensions of settings files, in order of precedence.
var endings = []string{".yaml", ".yml", ".json"}

// found is a file and its content.
type found struct {
	path string
	data []byte
}

// search reads the first existing file among the named ones, or by its base name in the directories. Like openstacksdk, it skips files that the user may
// not read; denied lists them.
func (s Source) search(named []string, base string, dirs []string) (f found, denied []string, err error) {
	var paths []string
	for _, n := range named {
		if n == "" {
			continue
		}
		if n, err = s.expand(n); err != nil {
			return f, nil, fail.Wrap(fail.Invalid, err, "find %s", n)
		}
		paths = append(paths, n)
	}
	for _, d := range dirs {
		for _, e := range endings {
			paths = append(paths, filepath.Join(d, base+e))
		}
	}
	for _, p := range paths {
		data, err := s.ReadFile(p)
		switch {
		case err == nil:
			return found{p, data}, denied, nil
		case errors.Is(err, fs.ErrPermission):
			denied = append(denied, p)
		case !missing(err):
			return f, denied, fail.Wrap(fail.Invalid, err, "read the settings of clouds").Do("correct or remove %s", p)
		}
	}
	return f, denied, nil
}

// missing reports whether an error means that a file does not exist, or that a part of its path is not a directory.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(err.Error(), "not a directory")
}
