package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/machine"
)

// wantedFile is a file of the configuration, of any kind.
type wantedFile struct {
	machine.File
	kind string // "file", "unit", "sysctl", "module", as in reports
}

// wantedFiles returns the configuration's files, unit files and drop-ins, and the files that make kernel settings and modules persistent.
func (a *Agent) wantedFiles(c machine.Config) []wantedFile {
	var out []wantedFile
	for _, f := range c.Files {
		out = append(out, wantedFile{f, "file"})
	}
	add := func(kind, p string, mode fs.FileMode, content string) {
		out = append(out, wantedFile{machine.File{Path: p, Mode: mode, Content: []byte(content)}, kind})
	}
	for _, u := range c.Units {
		mode := fs.FileMode(0o644)
		if u.Private {
			mode = 0o600
		}
		if u.Content != "" {
			add("unit", machine.UnitPath(u.Name), mode, u.Content)
		}
		for _, d := range u.DropIns {
			add("unit", machine.DropInPath(u.Name, d.Name), mode, d.Content)
		}
	}
	if len(c.Sysctls) > 0 {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(c.Sysctls)) {
			fmt.Fprintf(&b, "%s = %s\n", k, c.Sysctls[k])
		}
		add("sysctl", sysctlFile, 0o644, b.String())
	}
	if len(c.Hooks) > 0 {
		out = append(out, wantedFile{machine.File{Path: hooksFile, Mode: 0o600, Content: hooksContent(c.Hooks), Secret: true}, "file"})
	}
	if len(c.KernelArguments) > 0 {
		add("file", bootargs.File, 0o644, bootargs.Content(c.KernelArguments))
	}
	if len(c.Modules) > 0 && a.loadsModules() {
		add("module", modulesFile, 0o644, strings.Join(slices.Sorted(slices.Values(c.Modules)), "\n")+"\n")
	}
	return out
}

// wantedDirectories returns the configuration's directories, and the unnamed parents of its other paths with mode 0755, parents first.
func (a *Agent) wantedDirectories(c machine.Config, files []wantedFile) []machine.Directory {
	byPath := map[string]machine.Directory{}
	parents := func(p string) {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			if _, ok := byPath[dir]; ok {
				return
			}
			if _, err := os.Stat(a.path(dir)); err == nil {
				return
			}
			byPath[dir] = machine.Directory{Path: dir, Mode: 0o755}
		}
	}
	for _, d := range c.Directories {
		byPath[d.Path] = d
	}
	for _, d := range c.Directories {
		parents(d.Path)
	}
	for _, f := range files {
		parents(f.Path)
	}
	for _, b := range c.Binaries {
		parents(b.Path)
	}
	for _, l := range c.Links {
		parents(l.Path)
	}
	out := slices.Collect(maps.Values(byPath))
	slices.SortFunc(out, func(x, y machine.Directory) int { return strings.Compare(x.Path, y.Path) })
	return out
}

// blobPath returns the real path of a blob.
func (a *Agent) blobPath(digest string) string { return a.path(blobFile(digest)) }

// blobFile returns the path of a blob as the configuration sees it.
func blobFile(digest string) string {
	return machine.BlobDir + "/" + strings.TrimPrefix(digest, "sha256:")
}
