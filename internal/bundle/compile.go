package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// compile builds a component, or takes it from the cache.
func (l *Library) compile(ctx context.Context, g *goTool, c component, r *reporter) (*cacheEntry, error) {
	files, err := c.files()
	if err != nil {
		return nil, err
	}
	key, err := c.key(g, files)
	if err != nil {
		return nil, err
	}
	if e, err := l.cached(ctx, c.name, key); err != nil || e != nil {
		if e != nil {
			r.begin(c.name, PhaseCompile, 0).finish(true)
		}
		return e, err
	}
	dir, remove, err := l.workDir("compile-" + c.name)
	if err != nil {
		return nil, err
	}
	defer remove()
	packages, err := c.prepare(ctx, g, dir, files, r)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out")
	if err := c.goBuild(ctx, g, dir, out, r.begin(c.name, PhaseCompile, int64(packages))); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(c.targets))
	for _, t := range c.targets {
		names = append(names, t.name)
	}
	if len(c.definitions) > 0 {
		if err := c.gather(ctx, g, dir, out); err != nil {
			return nil, err
		}
		names = append(names, definitionsFile(c.name))
	}
	return l.store(ctx, c.name, key, out, names)
}

// key returns a digest of everything that determines the programs.
func (c component) key(g *goTool, files map[string][]byte) (string, error) {
	targets := make([]string, 0, len(c.targets))
	for _, t := range c.targets {
		targets = append(targets, t.name+"="+t.pkg)
	}
	return cacheKey(struct {
		Recipe             int
		Go                 string
		Env                []string
		Name, Version      string
		Tags, LDFlags      string
		Targets, DropsFrom []string
		Files              map[string][]byte
		Definitions        []string `json:",omitempty"`
	}{1, g.version, fixedEnv(), c.name, c.version, c.tags, c.ldflags, targets, c.derive.Imports(), files, c.definitions})
}

// prepare writes the recipe into dir, downloads the modules and returns the number of packages to compile.
func (c component) prepare(ctx context.Context, g *goTool, dir string, files map[string][]byte, r *reporter) (int, error) {
	for _, name := range sortedKeys(files) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return 0, ioError(err, "write recipe of "+c.name, file)
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return 0, ioError(err, "write recipe of "+c.name, file)
		}
	}
	t := r.begin(c.name, PhaseDownload, 0)
	if c.derive != nil {
		if err := c.deriveMain(ctx, g, dir); err != nil {
			return 0, err
		}
	}
	// Listing the dependencies downloads only the needed modules, verified against go.sum.
	args := append([]string{"list", "-deps", "-tags", c.tags, "-f", "{{.ImportPath}}"}, c.packages()...)
	deps, err := g.run(ctx, dir, func(string) { t.add(1) }, args...)
	if err != nil {
		return 0, inComponent(err, c, "download the modules of")
	}
	t.finish(false)
	return strings.Count(deps, "\n"), nil
}

// deriveMain writes the main program that c.derive describes.
func (c component) deriveMain(ctx context.Context, g *goTool, dir string) error {
	out, err := g.run(ctx, dir, nil, "mod", "download", "-json", c.module+"@"+c.version)
	if err != nil {
		return inComponent(err, c, "download the module of")
	}
	var mod struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &mod); err != nil {
		return fail.Wrap(fail.Internal, err, "read the output of go mod download").At(c.name)
	}
	src, err := os.ReadFile(filepath.Join(mod.Dir, c.derive.File))
	if err != nil {
		return ioError(err, "read main program of "+c.name, mod.Dir)
	}
	src, err = derived(c.derive, src)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "derive main program").At(c.name)
	}
	if err := os.WriteFile(filepath.Join(dir, c.derive.File), src, 0o644); err != nil {
		return ioError(err, "write main program of "+c.name, dir)
	}
	return nil
}

// derived removes the import lines of the packages in d.Drop: exactly one line each.
func derived(d *catalogue.Derivation, src []byte) ([]byte, error) {
	for _, drop := range d.Drop {
		var kept [][]byte
		for line := range bytes.Lines(src) {
			if !bytes.HasSuffix(bytes.TrimSpace(line), []byte(drop+`"`)) {
				kept = append(kept, line)
			}
		}
		before := bytes.Count(src, []byte("\n"))
		src = bytes.Join(kept, nil)
		if n := before - bytes.Count(src, []byte("\n")); n != 1 {
			return nil, fail.New(fail.Internal, "%d lines import %s, not one", n, drop)
		}
	}
	return src, nil
}

// goBuild compiles all targets in one run, so that they share packages and the linker's work is spread.
func (c component) goBuild(ctx context.Context, g *goTool, dir, out string, t *task) error {
	if err := os.Mkdir(out, 0o755); err != nil {
		return ioError(err, "compile "+c.name, out)
	}
	args := append([]string{"build", "-v", "-tags", c.tags, "-ldflags", c.ldflags, "-o", out + "/"}, c.packages()...)
	if _, err := g.run(ctx, dir, func(string) { t.add(1) }, args...); err != nil {
		return inComponent(err, c, "compile")
	}
	t.finish(false)
	return c.rename(out)
}

// rename renames programs from the names that the go command chose to their targets' names.
func (c component) rename(out string) error {
	for _, t := range c.targets {
		was := c.builtName(t)
		if was == t.name {
			continue
		}
		if err := os.Rename(filepath.Join(out, was), filepath.Join(out, t.name)); err != nil {
			return ioError(err, "name program of "+c.name, out)
		}
	}
	return nil
}

// builtName returns the name that go build gives a program: the last element of its package's path that is not a major version. The
// program of the recipe's own directory is named after its module.
func (c component) builtName(t target) string {
	if t.pkg == "." {
		return c.name
	}
	dir, last := path.Split(t.pkg)
	if strings.HasPrefix(last, "v") && strings.Trim(last[1:], "0123456789") == "" {
		last = path.Base(dir)
	}
	return last
}

func (c component) packages() []string {
	out := make([]string, 0, len(c.targets))
	for _, t := range c.targets {
		out = append(out, t.pkg)
	}
	return out
}

func inComponent(err error, c component, what string) error {
	if k := fail.KindOf(err); k == fail.Interrupted {
		return err
	}
	return fail.Wrap(fail.KindOf(err), err, "%s %s %s", what, c.name, c.version)
}
