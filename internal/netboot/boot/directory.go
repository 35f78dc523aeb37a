package boot

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/naupegos/naupegos/internal/fail"
)

// settle is how long a directory has to be left alone before it is read: who writes it writes more than one file.
const settle = 100 * time.Millisecond

// Directory keeps a catalog as a data directory is.
type Directory struct {
	*Catalog
	path string
	log  *slog.Logger
}

// OpenDirectory reads the data directory of a matchbox into a catalog. What can't be used in it is told to the log.
func OpenDirectory(path string, log *slog.Logger) (*Directory, error) {
	d := &Directory{Catalog: NewCatalog(), path: path, log: log}
	return d, d.Load()
}

// Load reads the directory anew. Where it can't be read, the catalog stays as it is.
func (d *Directory) Load() error {
	cfg, problems, err := ReadDir(d.path)
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
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
			quiet.Reset(settle)
		case err := <-w.Errors: // as when there were more changes than the kernel keeps
			d.log.Warn("changes may have been missed, all is read again", "directory", d.path, "reason", err.Error())
			quiet.Reset(settle)
		case <-quiet.C:
			// Watched first, then read: what changes in between is read twice, not missed.
			if err := d.follow(w); err != nil {
				return fail.Wrap(fail.Internal, err, "watch the groups and profiles of machines").At(d.path).Do("raise fs.inotify.max_user_watches")
			}
			if err := d.Load(); err != nil {
				d.log.Error("boot configuration stays as it was", "directory", d.path, "reason", err.Error())
			}
		}
	}
}

// follow watches every directory that is read. Adding one that is watched changes nothing.
func (d *Directory) follow(w *fsnotify.Watcher) error {
	watch := func(dir string) error {
		if err := w.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := watch(d.path); err != nil {
		return err
	}
	for _, sub := range directories {
		err := filepath.WalkDir(filepath.Join(d.path, sub), func(path string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, os.ErrNotExist):
				return nil
			case err != nil:
				return err
			case !e.IsDir():
				return nil
			}
			return watch(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
