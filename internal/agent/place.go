package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDirectories creates directories, parents first.
func (a *Agent) makeDirectories(ops []*op) error {
	for _, o := range ops {
		p := a.path(o.path)
		if o.Action == "create" {
			// Not accessible to others until it has its owner and mode.
			if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return fileError(err, "make the directory", o.path)
			}
		}
		if err := a.attributes(o); err != nil {
			return err
		}
	}
	return nil
}

// attributes sets owner and mode of an existing path.
func (a *Agent) attributes(o *op) error {
	if err := os.Chown(a.path(o.path), o.uid, o.gid); err != nil {
		return fileError(err, "set the owner of", o.path)
	}
	if err := os.Chmod(a.path(o.path), o.mode); err != nil { // after chown, which clears setuid
		return fileError(err, "set the mode of", o.path)
	}
	return nil
}

// placeFiles writes all new contents to temporary files before it renames the first one: a full disk is noticed while all old files are still intact.
func (a *Agent) placeFiles(ops []*op) error {
	var files []staged
	var links []*op
	for _, o := range ops {
		if o.link != "" {
			target, err := filepath.Rel(filepath.Dir(o.link), o.path)
			if err != nil {
				return fileError(err, "link", o.link)
			}
			links = append(links, &op{path: o.link, target: target})
		}
		if !o.write {
			if err := a.attributes(o); err != nil {
				return err
			}
			continue
		}
		s, err := a.stage(o.path, o.content, o.mode, o.uid, o.gid)
		if err != nil {
			a.unstage(files)
			return err
		}
		files = append(files, s)
	}
	if err := a.commit(files); err != nil {
		return err
	}
	return a.placeLinks(links)
}

// placeLinks creates links, replacing each atomically.
func (a *Agent) placeLinks(ops []*op) error {
	dirs := map[string]bool{}
	for _, o := range ops {
		tmp := a.tmpName(o.path)
		if err := removePath(tmp, o.path); err != nil {
			return err
		}
		if err := os.Symlink(o.target, tmp); err != nil {
			return fileError(err, "link", o.path)
		}
		if err := os.Rename(tmp, a.path(o.path)); err != nil {
			_ = os.Remove(tmp)
			return fileError(err, "put in place", o.path)
		}
		dirs[filepath.Dir(tmp)] = true
	}
	return a.syncDirs(dirs)
}

// original returns the path at which the host's own file from p is kept while it is replaced.
func original(p string) string {
	sum := sha256.Sum256([]byte(p))
	return originalsDir + "/" + hex.EncodeToString(sum[:16])
}

// keepOriginals saves the files and links at paths that become managed: regular files with their mode and owner, and links. It runs before the state
// that records them is written, so that an unsaved file never counts as saved.
func (a *Agent) keepOriginals(st, next *state) error {
	for p, s := range next.Paths {
		if _, ours := st.Paths[p]; ours || !s.Found || s.Kind == "directory" {
			continue
		}
		if err := os.MkdirAll(a.path(originalsDir), 0o700); err != nil {
			return fileError(err, "keep the original of", p)
		}
		if err := a.copyFile(p, original(p)); err != nil {
			return err
		}
	}
	return nil
}

// restoreOriginal puts back the saved original of p; false if none was saved.
func (a *Agent) restoreOriginal(p string) (bool, error) {
	if _, err := os.Lstat(a.path(original(p))); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := a.copyFile(original(p), p); err != nil {
		return false, err
	}
	return true, removePath(a.path(original(p)), p)
}

// copyFile copies a regular file or a link.
func (a *Agent) copyFile(from, to string) error {
	f, err := a.look(from)
	if err != nil || f == nil {
		return err
	}
	switch {
	case f.info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(a.path(from))
		if err != nil {
			return fileError(err, "read", from)
		}
		if err := removePath(a.path(to), to); err != nil {
			return err
		}
		if err := os.Symlink(target, a.path(to)); err != nil {
			return fileError(err, "link", to)
		}
		return nil
	case !f.info.Mode().IsRegular():
		return nil // a socket or device: nothing to keep
	}
	content, err := os.ReadFile(a.path(from))
	if err != nil {
		return fileError(err, "read", from)
	}
	s, err := a.stage(to, content, f.info.Mode()&^fs.ModeType, f.uid, f.gid)
	if err != nil {
		return err
	}
	return a.commit([]staged{s})
}
