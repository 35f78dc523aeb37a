package boot

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/within"
)

// maxFile is how many bytes a group, profile or template may have.
const maxFile = 16 << 20

// directories are those of a data directory that a Config is read from.
var directories = []string{"groups", "profiles", string(ignitionKind), string(cloudKind), string(genericKind)}

// ReadDir reads the data directory of a matchbox: groups/*.json, profiles/*.json, and templates in ignition/, cloud/ and generic/. Any of
// them may be missing. A file that can't be used is left out, and is among the problems; the error is for a directory that can't be read.
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
		if within.Escapes(err) { // the other directories are of use without it
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

// eachFile calls f with the names of the files that matter below root, which is a directory of the kind sub. Groups lie in it directly; profiles,
// templates and assets may lie in directories of their own. A name may be a link.
func eachFile(in *within.Dir, root, sub string, f func(name string)) error {
	return in.Walk(root, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(at, root), "/")
		if root == "." {
			name = at
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // there is no such directory, or the file has gone meanwhile
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
