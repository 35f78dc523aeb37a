package boot

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/within"
)

// maxFile is the maximum size of a group, profile or template.
const maxFile = 16 << 20

// directories are the subdirectories of a data directory that make up a Config.
var directories = []string{"groups", "profiles", string(ignitionKind), string(cloudKind), string(genericKind)}

// ReadDir reads a matchbox data directory: groups/*.json, profiles/*.json, and templates in ignition/, cloud/ and generic/, all of them optional.
// Files that it can't use become problems; the error is for a directory that can't be read.
func ReadDir(dir string) (Config, []Problem, error) {
	cfg := Config{Groups: map[string]Group{}, Profiles: map[string]Profile{}, Ignition: map[string]string{}, Cloud: map[string]string{}, Generic: map[string]string{}}
	var problems []Problem
	in, err := within.Open(dir)
	if err != nil {
		return cfg, nil, fail.Wrap(fail.NotFound, err, "read the groups and profiles of machines").At(dir)
	}
	defer in.Close()
	for _, sub := range directories {
		err := eachFile(in, sub, sub, func(name string) {
			data, err := in.Read(path.Join(sub, name), maxFile)
			if err == nil {
				err = cfg.take(sub, name, data)
			}
			if err != nil {
				problems = append(problems, Problem{sub + "/" + name, err})
			}
		})
		if within.Escapes(err) { // the other directories are still useful
			problems = append(problems, Problem{sub, err})
		} else if err != nil {
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

// eachFile calls f with the names of the relevant files below root, a directory of the kind sub. Groups are directly in it; profiles, templates
// and assets can be in subdirectories. A name can be a link.
func eachFile(in *within.Dir, root, sub string, f func(name string)) error {
	return in.Walk(root, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(at, root), "/")
		if root == "." {
			name = at
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the directory does not exist, or the file has been removed
		case err != nil:
			return err
		case d.IsDir():
			if at != root && sub == "groups" {
				return fs.SkipDir
			}
			return nil
		case (sub == "groups" || sub == "profiles") && !strings.HasSuffix(name, ".json"):
			return nil
		}
		f(name)
		return nil
	})
}
