package backup

import (
	"context"
	"io"
	"time"
)

// Target is a place that backups are kept in. Names of files are paths with slashes, relative to it. It may be used by several goroutines.
type Target interface {
	// String says for people where it is, without secrets.
	String() string
	// Create makes a file appear whole or not at all, in place of one that may be there.
	Create(ctx context.Context, name string, fill func(io.Writer) error) error
	// Open reads a file; fail.NotFound where there is none. It returns the file's size, too.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// List lists the files below a directory, and what is left of such that never became whole. A directory that isn't there has none.
	List(ctx context.Context, dir string) ([]File, error)
	// Remove removes files. One that isn't there is no error.
	Remove(ctx context.Context, names ...string) error
	// Grace is how old something must be that never became whole until nobody can be at work on it any more; 0: nobody else ever is.
	Grace() time.Duration
}

// File is one file of a Target.
type File struct {
	Name     string
	Size     int64
	Modified time.Time
}
