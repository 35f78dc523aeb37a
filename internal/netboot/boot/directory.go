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

// settle is how long a directory has to be left alone before it is read: who writes it writes more than one file.
const settle = 100 * time.Millisecond

// latest bounds how long continuing changes delay the reading of the first one.
const latest = 700 * time.Millisecond

// polls is how often a directory is looked at without an event: the kernel sees no changes that other hosts make on NFS, CIFS or FUSE, and stops
// watching an unmounted directory.
const polls = 10 * time.Second

// Directory keeps a catalog as a data directory is.
type Directory struct {
	*Catalog
	path string
	poll time.Duration
	log  *slog.Logger
	lost atomic.Bool // it could not be read when that was tried last
}

// Readable reports whether the directory could be read when it last changed.
func (d *Directory) Readable() bool { return !d.lost.Load() }

// OpenDirectory reads the data directory of a matchbox into a catalog. What can't be used in it is told to the log.
func OpenDirectory(path string, log *slog.Logger) (*Directory, error) {
	d := &Directory{Catalog: NewCatalog(), path: path, poll: polls, log: log}
	return d, d.Load()
}

// Load reads the directory anew. Where it can't be read, the catalog stays as it is.
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

// Watch loads the directory when something in it has changed, until ctx ends.
func (d *Directory) Watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "watch the groups and profiles of machines").At(d.path).Do("raise fs.inotify.max_user_instances")
	}
	defer w.Close() //nolint:errcheck // nothing was written
	var links links
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	var first time.Time // of the changes that were not read yet; zero: there are none
	changed := func() {
		if first.IsZero() {
			first = time.Now()
		}
		quiet.Reset(max(0, min(settle, latest-time.Since(first))))
	}
	poll := time.NewTicker(d.poll)
	defer poll.Stop()
	var read string // fingerprint of the directory when it was last read
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if links.concern(e.Name) {
				changed()
			}
		case err := <-w.Errors: // as when there were more changes than the kernel keeps
			d.log.Warn("changes may have been missed, all is read again", "directory", d.path, "reason", err.Error())
			changed()
		case <-poll.C:
			if now, err := fingerprint(d.path); now != read || err == nil && !d.Readable() {
				changed()
			}
		case <-quiet.C:
			first = time.Time{}
			// Watched first, then read: what changes in between is read twice, not missed.
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

// follow watches every directory that is read, and those of the links that lead there. What is not read any more is not watched any more.
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
	// The link's target, not the link: inotify would go on to watch the former directory by the same name.
	if err := d.watchTree(links.target, watch); err != nil {
		return err
	}
	for _, dir := range w.WatchList() {
		if !wanted[filepath.Clean(dir)] {
			_ = w.Remove(dir) // it may have gone with its watch
		}
	}
	return nil
}

// watchTree watches a directory and those in it that files are read from.
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
			case errors.Is(err, fs.ErrNotExist), within.Escapes(err): // Load says what is wrong with a link
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

// links are what a path goes through before it is a directory.
type links struct {
	target  string   // without a link at its end
	names   []string // the links, each of which may be exchanged
	parents []string // the directories of these
}

// maxLinks is how many links in a row are followed, as many as the kernel follows.
const maxLinks = 40

// linksOf follows a path for as long as its last part is a link.
func linksOf(path string) links {
	l := links{target: filepath.Clean(path)}
	for range maxLinks {
		if above, err := filepath.EvalSymlinks(filepath.Dir(l.target)); err == nil { // ".." in a link starts at the real directory
			l.target = filepath.Join(above, filepath.Base(l.target))
		}
		// Any name may become a link.
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

// concern reports whether a change of a name matters. Other files beside the directory change all the time, such as the store.
func (l links) concern(name string) bool {
	name = filepath.Clean(name)
	if slices.Contains(l.names, name) {
		return true
	}
	rel, err := filepath.Rel(l.target, name)
	return err == nil && filepath.IsLocal(rel)
}
