package boot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// directories are those of a data directory that a Config is read from.
var directories = []string{"groups", "profiles", string(ignitionKind), string(cloudKind), string(genericKind)}

// ReadDir reads the data directory of a matchbox: groups/*.json, profiles/*.json, and templates in ignition/, cloud/ and generic/. Any of
// them may be missing. A file that can't be used is left out, and is among the problems; the error is for a directory that can't be read.
func ReadDir(dir string) (Config, []Problem, error) {
	cfg := Config{Groups: map[string]Group{}, Profiles: map[string]Profile{}, Ignition: map[string]string{}, Cloud: map[string]string{}, Generic: map[string]string{}}
	var problems []Problem
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = errors.New("it is not a directory")
		}
		return cfg, nil, fail.Wrap(fail.NotFound, err, "read the groups and profiles of machines").At(dir)
	}
	for _, sub := range directories {
		err := eachFile(filepath.Join(dir, sub), sub, func(name, path string) {
			data, err := os.ReadFile(path)
			if err == nil {
				err = cfg.take(sub, name, data)
			}
			if err != nil {
				problems = append(problems, Problem{sub + "/" + name, err})
			}
		})
		if err != nil {
			return cfg, nil, fail.Wrap(fail.Internal, err, "read the groups and profiles of machines").At(dir)
		}
	}
	return cfg, problems, nil
}

// take adds a file of a directory to the config.
func (c *Config) take(sub, name string, data []byte) error {
	switch sub {
	case "groups":
		g, err := ParseGroup(data)
		if err == nil {
			c.Groups[strings.TrimSuffix(name, ".json")] = g
		}
		return err
	case "profiles":
		p, err := ParseProfile(data)
		if err == nil {
			c.Profiles[strings.TrimSuffix(name, ".json")] = p
		}
		return err
	case string(ignitionKind):
		c.Ignition[name] = string(data)
	case string(cloudKind):
		c.Cloud[name] = string(data)
	case string(genericKind):
		c.Generic[name] = string(data)
	}
	return nil
}

// eachFile calls f with the files that matter in root, a directory of this kind: their name below it, and their path. Groups lie in it
// itself; what profiles, templates and assets are named may have directories. Links are followed to files.
func eachFile(root, sub string, f func(name, path string)) error {
	return fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // there is no such directory, or the file has gone meanwhile
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && sub == "groups" {
				return fs.SkipDir
			}
			return nil
		case (sub == "groups" || sub == "profiles") && !strings.HasSuffix(name, ".json"):
			return nil
		}
		f(name, filepath.Join(root, name))
		return nil
	})
}
