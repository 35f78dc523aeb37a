package discovery

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Programs are the programs of this host that an installation runs, with their packages.
var Programs = map[string]string{"/usr/sbin/sfdisk": "fdisk"}

// libraryDirs are the directories in which Debian's dynamic linker looks.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// withLibraries returns the files of programs and of the libraries that they link, by their paths, which are the same on this host and in the
// image.
func withLibraries(programs map[string]string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for path, pkg := range programs {
		if err := addProgram(files, path); err != nil {
			return nil, fail.Wrap(fail.Refused, err, "take %s of this host", path).Do("apt-get install %s", pkg)
		}
	}
	return files, nil
}

func addProgram(files map[string][]byte, path string) error {
	if files[path] != nil {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	files[path] = data
	needs, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(p.Open())
			if err != nil {
				return err
			}
			needs = append(needs, strings.TrimRight(string(name), "\x00"))
		}
	}
	for _, need := range needs {
		at, err := findLibrary(need)
		if err == nil {
			err = addProgram(files, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func findLibrary(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range libraryDirs {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no library %s in %v", name, libraryDirs)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// digestOf names files by their paths and content.
func digestOf(files map[string][]byte) string {
	h := sha256.New()
	paths := make([]string, 0, len(files))
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		fmt.Fprintf(h, "%s %x\n", p, sha256.Sum256(files[p]))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
