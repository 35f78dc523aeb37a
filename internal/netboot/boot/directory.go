package boot

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/within"
)

// settle is how long a directory must be unchanged before it is read: writers usually write more than one file.
const settle = 100 * time.Millisecond

// latest is the longest delay of a read while changes continue.
const latest = 700 * time.Millisecond

// polls is the interval of checks without an event: the kernel does not report changes by other hosts on NFS, CIFS or FUSE, and stops watching an
// unmounted directory.
const polls = 10 * time.Second

// Directory is a catalog that follows a data directory.
type Directory struct {
	*Catalog
	path string
	poll time.Duration
	log  *slog.Logger
	lost atomic.Bool // the last read failed
}

// Readable reports whether the directory could be read when it last changed.
func (d *Directory) Readable() bool { return !d.lost.Load() }

// OpenDirectory reads a matchbox data directory into a catalog. It logs the files that it can't use.
func OpenDirectory(path string, log *slog.Logger) (*Directory, error) {
	d := &Directory{Catalog: NewCatalog(), path: path, poll: polls, log: log}
	return d, d.Load()
}

// Load reads the directory again. If the directory can't be read, the catalog does not change.
func (d *Directory) Load() error {
	cfg, problems, err := ReadDir(d.path)
	d.lost.Store(err != nil)
	if err != nil {
		return err
	}
	problems = append(problems, d.Replace(cfg)...)
	for _, p := range problems {
		d.log.Warn("machines get no answer from a file", "directory", d.path, "file", p.File, "reason", p.Err.Error())
	}
	d.log.Info("boot configuration is read", "directory", d.path, "groups", d.Len(), "problems", len(problems))
	return nil
}

// Watch reloads the directory after changes until ctx ends.
func (d *Directory) Watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "watch the groups and profiles of machines").At(d.path).Do("raise fs.inotify.max_user_instances")
	}
	defer w.Close() //nolint:errcheck // it holds no unsaved data
	var links links
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	var first time.Time // first change that was not read yet; zero: none
	changed := func() {
		if first.IsZero() {
			first = time.Now()
		}
		quiet.Reset(max(0, min(settle, latest-time.Since(first))))
	}
	poll := time.NewTicker(d.poll)
	defer poll.Stop()
	var read string // fingerprint of the directory at the last read
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if links.concern(e.Name) {
				changed()
			}
		case err := <-w.Errors: // such as an overflow of the kernel's event queue
			d.log.Warn("changes may have been missed, all is read again", "directory", d.path, "reason", err.Error())
			changed()
		case <-poll.C:
			if now, err := fingerprint(d.path); now != read || err == nil && !d.Readable() {
				changed()
			}
		case <-quiet.C:
			first = time.Time{}
			// Watch before reading: a change in between is then read twice rather than missed.
			links = linksOf(d.path)
			if err := d.follow(w, links); err != nil {
				return fail.Wrap(fail.Internal, err, "watch the groups and profiles of machines").At(d.path).Do("raise fs.inotify.max_user_watches")
			}
			read, _ = fingerprint(d.path) // Load reports the error
			if err := d.Load(); err != nil {
				d.log.Error("boot configuration stays as it was", "directory", d.path, "reason", err.Error())
			}
		}
	}
}

// follow watches every directory that is read and those of the links on the path. It stops watching all others.
func (d *Directory) follow(w *fsnotify.Watcher, links links) error {
	wanted := map[string]bool{}
	watch := func(dir string) error {
		wanted[filepath.Clean(dir)] = true
		if err := w.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	for _, dir := range links.parents {
		if err := watch(dir); err != nil {
			return err
		}
	}
	// Watch the link's target, not the link: inotify would go on watching the former directory under the same name.
	if err := d.watchTree(links.target, watch); err != nil {
		return err
	}
	for _, dir := range w.WatchList() {
		if !wanted[filepath.Clean(dir)] {
			_ = w.Remove(dir) // the watch may have ended with the directory
		}
	}
	return nil
}

// watchTree watches a directory and its subdirectories with files to read.
func (d *Directory) watchTree(top string, watch func(string) error) error {
	if err := watch(top); err != nil {
		return err
	}
	in, err := within.Open(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for _, sub := range directories {
		if err := watchAll(linkDirs(top, sub), watch); err != nil {
			return err
		}
		err := in.Walk(sub, func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist), within.Escapes(err): // Load reports the problem of a link
				return nil
			case err != nil:
				return err
			case e.Type()&fs.ModeSymlink != 0:
				return watchAll(linkDirs(top, name), watch)
			case !e.IsDir():
				return nil
			}
			return watch(filepath.Join(top, name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// links describes how a path resolves to a directory.
type links struct {
	target  string   // the path after resolving links at its end
	names   []string // the links on the path, each of which can be replaced
	parents []string // the directories of names
}

// maxLinks limits the links in a row, as the kernel does.
const maxLinks = 40

// linksOf resolves a path as long as its last element is a link.
func linksOf(path string) links {
	l := links{target: filepath.Clean(path)}
	for range maxLinks {
		if above, err := filepath.EvalSymlinks(filepath.Dir(l.target)); err == nil { // ".." in a link is relative to the real directory
			l.target = filepath.Join(above, filepath.Base(l.target))
		}
		// Any name may become a link later.
		l.names, l.parents = append(l.names, l.target), append(l.parents, filepath.Dir(l.target))
		to, err := os.Readlink(l.target)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(l.target), to)
		}
		l.target = filepath.Clean(to)
	}
	return l
}

// concern reports whether a change of a name matters. Other files next to the directory, such as the store, change all the time.
func (l links) concern(name string) bool {
	name = filepath.Clean(name)
	if slices.Contains(l.names, name) {
		return true
	}
	rel, err := filepath.Rel(l.target, name)
	return err == nil && filepath.IsLocal(rel)
}
