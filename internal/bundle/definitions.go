package bundle

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Definitions of custom resources come from the modules that the bundle's programs are compiled from, so that both are of one version.

const definitionsPrefix = "definitions/"

func definitionsFile(set string) string { return definitionsPrefix + set + ".yaml" }

func isDefinitions(name string) bool { return strings.HasPrefix(name, definitionsPrefix) }

// Definitions returns the definitions of custom resources of a set of addons, as YAML documents; fail.NotFound if the bundle has none.
func (b *Bundle) Definitions(ctx context.Context, set string) ([]byte, error) {
	a, err := b.File(definitionsFile(set))
	if err != nil {
		return nil, err
	}
	f, err := b.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, ioError(err, "read "+a.Name, f.Name())
	}
	return data, nil
}

// gather joins the modules' files with definitions into one file below out.
func (c component) gather(ctx context.Context, g *goTool, dir, out string) error {
	var all bytes.Buffer
	for _, pattern := range c.definitions {
		module, glob, elsewhere := strings.Cut(pattern, ":")
		if !elsewhere {
			module, glob = c.module, pattern
		}
		root, err := g.run(ctx, dir, nil, "list", "-m", "-f", "{{.Dir}}", module)
		if err != nil {
			return inComponent(err, c, "find a module of")
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(root), filepath.FromSlash(glob)))
		if err != nil || len(files) == 0 {
			return fail.New(fail.Internal, "no file of %s matches %s", module, glob).At(c.name)
		}
		for _, file := range files { // sorted
			data, err := os.ReadFile(file)
			if err != nil {
				return ioError(err, "read definitions of "+c.name, file)
			}
			all.WriteString("---\n")
			all.Write(bytes.TrimPrefix(bytes.TrimSpace(data), []byte("---\n")))
			all.WriteString("\n")
		}
	}
	file := filepath.Join(out, definitionsFile(c.name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return ioError(err, "write definitions of "+c.name, file)
	}
	if err := os.WriteFile(file, all.Bytes(), 0o644); err != nil {
		return ioError(err, "write definitions of "+c.name, file)
	}
	return nil
}

// packDefinitions stores the definitions among the assembly's ingredients.
func (a *assembly) packDefinitions(ctx context.Context, progs programs) ([]Artifact, error) {
	var out []Artifact
	for _, name := range sortedKeys(progs) {
		if !isDefinitions(name) {
			continue
		}
		p := progs[name]
		if err := a.lib.addFile(ctx, p.Artifact, p.file, 0o644); err != nil {
			return nil, err
		}
		out = append(out, p.Artifact)
	}
	return out, nil
}
