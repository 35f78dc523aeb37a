package follow

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/siteset"
)

// beside lists the files and directories that a document names, by their paths in the repository.
func (l *look) beside(content []byte) (all []string) {
	doc, err := validation.Parse(l.f.Path, content)
	if err != nil {
		return nil // check reports the error
	}
	for _, name := range v1alpha1.SourceFiles(doc) {
		if doc.Sources[name] != "" {
			continue
		}
		at := path.Join(path.Dir(l.f.Path), name)
		if path.IsAbs(name) {
			at = name // gitread refuses it
		}
		if !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// embed puts the files that a document names into it, as naupegos apply does. They are written below a directory of their own, and nothing else is read.
func (l *look) embed(found *gitread.Found) (err error) {
	if len(found.Beside) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp(l.dir(), "read-")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "make a directory for the files of a document")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "open the directory for the files of a document")
	}
	defer root.Close()
	for name, data := range found.Beside {
		if err := errors.Join(root.MkdirAll(path.Dir(name), 0o700), root.WriteFile(name, data, 0o600)); err != nil {
			return fail.Wrap(fail.Internal, err, "write a file of a document")
		}
	}
	below := filepath.Join(dir, filepath.FromSlash(path.Dir(l.f.Path)))
	if err := os.MkdirAll(below, 0o700); err != nil { // names may begin with ../
		return fail.Wrap(fail.Internal, err, "write a file of a document")
	}
	found.Content, err = siteset.Embed(l.f.Path, below, found.Content)
	return err
}
