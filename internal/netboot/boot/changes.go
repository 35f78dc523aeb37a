package boot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/naupegos/naupegos/internal/within"
)

// linkDirs returns the directories on the path from a link in a directory to its target, without top. It stops at a link that leads outside of
// top: such a file is not read.
func linkDirs(top, name string) (dirs []string) {
	split := func(path string) []string { return strings.Split(filepath.ToSlash(path), "/") }
	at, rest, links := top, split(name), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == top {
				return dirs
			}
			at = filepath.Dir(at)
			continue
		}
		if at != top {
			dirs = append(dirs, at)
		}
		to, err := os.Readlink(filepath.Join(at, part))
		if err != nil { // not a link, or it does not exist yet
			at = filepath.Join(at, part)
			continue
		}
		if links++; links > maxLinks || filepath.IsAbs(to) {
			return dirs
		}
		rest = append(split(to), rest...)
	}
	return dirs
}

// watchAll watches directories. It skips missing ones and files: the directory above them is watched.
func watchAll(dirs []string, watch func(string) error) error {
	for _, dir := range dirs {
		if err := watch(dir); err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	return nil
}

// fingerprint returns a value that changes if a file that ReadDir reads may have changed. It does not read contents.
func fingerprint(dir string) (string, error) {
	sum := sha256.New()
	in, err := within.Open(dir)
	if err != nil {
		return err.Error(), err
	}
	defer in.Close()
	for _, sub := range directories {
		err := eachFile(in, sub, sub, func(name string) {
			info, err := in.Stat(filepath.Join(sub, name)) // follows links
			if err != nil {
				_, _ = fmt.Fprintf(sum, "%s/%s %v\n", sub, name, err)
				return
			}
			_, _ = fmt.Fprintf(sum, "%q %d %d %s", sub+"/"+name, info.Size(), info.ModTime().UnixNano(), info.Mode())
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				_, _ = fmt.Fprintf(sum, " %d %d", st.Dev, st.Ino)
			}
			_, _ = fmt.Fprintln(sum)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !within.Escapes(err) {
			return err.Error(), err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
