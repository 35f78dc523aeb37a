// Package content finds the files of container images in unpacked Debian packages, with the libraries that they need, and writes them as a layer.
package content

import (
	"debug/elf"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Tree presents unpacked Debian packages, each in its own directory, as one file system.
type Tree struct{ Roots []string }

// Closure returns the programs (paths in the tree) with all shared libraries that they need and their loader. It looks only within the tree
// and executes nothing.
func (t Tree) Closure(programs ...string) ([]File, error) {
	out := map[string]File{}
	todo := append([]string(nil), programs...)
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		if _, ok := out[at]; ok {
			continue
		}
		src, err := t.Find(at)
		if err != nil {
			return nil, err
		}
		needed, loader, err := links(src)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read ELF file").At(src)
		}
		out[at] = File{Path: at, Source: src, Mode: 0o755}
		if loader != "" {
			todo = append(todo, loader)
		}
		for _, lib := range needed {
			p, err := t.library(lib)
			if err != nil {
				return nil, fail.Wrap(fail.Internal, err, "find what %s needs", at)
			}
			if p != "" {
				todo = append(todo, p)
			}
		}
	}
	files := make([]File, 0, len(out))
	for _, f := range out {
		files = append(files, f)
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files, nil
}

// links returns the libraries that an ELF file needs, and its loader if it names one.
func links(path string) (needed []string, loader string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close() //nolint:errcheck // read only
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return nil, "", err
		}
		loader = strings.TrimRight(string(data), "\x00")
	}
	needed, err = f.ImportedLibraries()
	return needed, loader, err
}

// library finds a library by name in the directories that Debian's loader searches, and returns its path in the image: always below /usr.
// It returns "" for the loader, which libraries may name, too: Closure adds the loader for programs that name it.
func (t Tree) library(name string) (string, error) {
	if strings.HasPrefix(name, "ld-linux") {
		return "", nil
	}
	for _, pattern := range []string{"/usr/lib/*-linux-gnu", "/lib/*-linux-gnu", "/usr/lib", "/lib"} {
		found, err := t.Glob(pattern + "/" + name)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return "/usr/" + strings.TrimPrefix(strings.TrimPrefix(found[0], "/"), "usr/"), nil
		}
	}
	return "", fail.New(fail.NotFound, "library %s is in none of the packages", name)
}

// Glob returns the matching paths in the tree, sorted.
func (t Tree) Glob(pattern string) ([]string, error) {
	var out []string
	for _, root := range t.Roots {
		found, err := filepath.Glob(root + pattern)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "search the packages for %s", pattern)
		}
		for _, f := range found {
			out = append(out, strings.TrimPrefix(f, root))
		}
	}
	sort.Strings(out)
	return out, nil
}

// Find returns the regular file on disk for an absolute path in the tree. It follows links within the tree, and looks both with and without
// /usr, because Debian moved /lib to /usr/lib and packages may use either.
func (t Tree) Find(path string) (string, error) {
	other := "/usr" + path
	if rest, ok := strings.CutPrefix(path, "/usr/"); ok {
		other = "/" + rest
	}
	for _, c := range []string{path, other} {
		for range 8 { // links
			file, next := t.lookup(c)
			if file != "" {
				return file, nil
			}
			if next == "" {
				break
			}
			c = next
		}
	}
	return "", fail.New(fail.NotFound, "%s is in none of the packages", path)
}

// lookup returns the regular file at path, or the target of a link at path, or nothing.
func (t Tree) lookup(path string) (file, next string) {
	for _, root := range t.Roots {
		at := filepath.Join(root, path)
		info, err := os.Lstat(at)
		if err != nil {
			continue
		}
		if info.Mode().IsRegular() {
			return at, ""
		}
		if dst, err := os.Readlink(at); err == nil {
			if !filepath.IsAbs(dst) {
				dst = filepath.Join(filepath.Dir(path), dst)
			}
			return "", filepath.Clean(dst)
		}
	}
	return "", ""
}
