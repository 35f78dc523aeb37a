package fail

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Hidden replaces a path of the host in a text for readers who are not its users.
const Hidden = "[a path of the server]"

// Public returns err without the paths of this host that its chain names, for readers who are not the host's users: the paths of failed file
// operations and programs, absolute places of errors, and other files beside them. The kind stays.
func Public(err error) error {
	if err == nil {
		return nil
	}
	var paths []string
	pathsOf(err, &paths)
	text := err.Error()
	if clean := HidePaths(text, paths...); clean != text {
		return &public{err, clean}
	}
	return err
}

// public is an error with another text.
type public struct {
	error
	text string
}

// Error implements error.
func (p *public) Error() string { return p.text }

// Unwrap returns the error with the paths.
func (p *public) Unwrap() error { return p.error }

// pathsOf adds the paths in an error's tree.
func pathsOf(err error, to *[]string) {
	switch e := err.(type) { //nolint:errorlint // this function unwraps it, below
	case *Error:
		*to = append(*to, e.Where)
	case *fs.PathError:
		*to = append(*to, e.Path)
	case *os.LinkError:
		*to = append(*to, e.Old, e.New)
	case *exec.Error:
		*to = append(*to, e.Name)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		if next := e.Unwrap(); next != nil {
			pathsOf(next, to)
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			pathsOf(one, to)
		}
	}
}

// HidePaths replaces absolute paths, and files in the same directories, in a text. Directories directly below the root, such as /etc, hide only the path
// itself.
func HidePaths(text string, paths ...string) string {
	var all []string
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			continue
		}
		p = filepath.Clean(p)
		all = append(all, p)
		if dir := filepath.Dir(p); strings.Count(dir, "/") > 1 {
			all = append(all, dir+"/")
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // the longest first: they contain the others
	for _, p := range all {
		for at := strings.Index(text, p); at >= 0; at = strings.Index(text, p) {
			rest := text[at+len(p):]
			end := strings.IndexAny(rest, " \t\n\"'`:;,()<>")
			if end < 0 {
				end = len(rest)
			}
			text = text[:at] + Hidden + rest[end:]
		}
	}
	return text
}
