package backup

import (
	"context"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Target stores backups. File names are slash-separated paths relative to it. Several goroutines may use it.
type Target interface {
	// String returns the location for people, without secrets.
	String() string
	// Create makes a file appear completely or not at all, and replaces an existing one.
	Create(ctx context.Context, name string, fill func(io.Writer) error) error
	// Open opens a file and returns its size, too; fail.NotFound if it does not exist.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// List lists the files below a directory, and the remains of incomplete ones. A missing directory is empty.
	List(ctx context.Context, dir string) ([]File, error)
	// Remove removes files. Missing files are not an error.
	Remove(ctx context.Context, names ...string) error
	// Grace is the age from which an incomplete file is abandoned, because no writer can still be at work on it; 0: there is never another writer.
	Grace() time.Duration
}

// File is one file of a Target.
type File struct {
	Name     string
	Size     int64
	Modified time.Time
}

// MostFiles is the number of files below a directory that targets list: a service could list files without an end.
const MostFiles = 200_000

// TooManyFiles is the error for a longer list.
func TooManyFiles(t Target) error {
	return fail.New(fail.Refused, "the service lists more than %d files", MostFiles).At(t.String()).Do("look at the files there: a cluster's backups are a few for each time")
}
