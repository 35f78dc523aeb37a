// Package infile reads the document that a user names with -f. Its errors name the fault of a path that leads to no document.
//
// It does not depend on the document's content.
package infile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
)

// most is more than any document has, so that a device without an end is not read for ever.
const most = 2*strict.MaxDocumentBytes + 6<<20

// File is what a user named with -f.
type File struct {
	Name string // for messages
	Dir  string // that paths in the document are relative to
	Data []byte
}

// Read reads the file at path; "-" is standard input, whose end it awaits no longer than ctx lasts.
func Read(ctx context.Context, path string, stdin io.Reader) (f File, err error) {
	switch path {
	case "":
		return f, fail.New(fail.Invalid, "no document given").Do("name it with -f FILE; naupegos init writes one")
	case "-":
		f = File{Name: "standard input", Dir: "."}
		f.Data, err = await(ctx, stdin)
	default:
		f = File{Name: path, Dir: dirOf(path)}
		f.Data, err = read(path)
	}
	if err != nil {
		return f, explain(err, path)
	}
	return f, nil
}

// await reads all of standard input, which may be a terminal or a pipe that nothing writes to.
func await(ctx context.Context, stdin io.Reader) ([]byte, error) {
	type input struct {
		data []byte
		err  error
	}
	done := make(chan input, 1)
	go func() { // if ctx ends first, it ends with the process
		data, err := io.ReadAll(io.LimitReader(stdin, most))
		done <- input{data, err}
	}()
	select {
	case in := <-done:
		return in.data, in.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dirOf returns the directory of a document. What the shell or another program sends by a pipe lies in none: there, it is the current one.
func dirOf(path string) string {
	if at := filepath.Clean(path); at == "/dev/stdin" || strings.HasPrefix(at, "/dev/fd/") || strings.HasPrefix(at, "/proc/") {
		return "."
	}
	return filepath.Dir(path)
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// explain says what to do about a file that can't be read.
func explain(err error, path string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	e := fail.Wrap(fail.Invalid, err, "read the document")
	var failed *fs.PathError
	if errors.As(err, &failed) {
		e = fail.Wrap(fail.Invalid, failed.Err, "read the document").At(path)
	}
	info, statErr := os.Stat(path)
	link, _ := os.Readlink(path)
	switch {
	case statErr == nil && info.IsDir():
		return fail.New(fail.Invalid, "is a directory, not a document").At(path).Do("name the file in it")
	case errors.Is(err, fs.ErrNotExist) && link != "":
		return fail.New(fail.Invalid, "is a link to %s, which does not exist", link).At(path)
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(path, "://"):
		return fail.New(fail.Invalid, "is a URL, not a file").At(path).Do("curl -fsS %s | naupegos … -f -", path)
	case errors.Is(err, fs.ErrNotExist):
		return fail.New(fail.Invalid, "there is no such file").At(path).Do("naupegos init > %s writes a document", path)
	case errors.Is(err, fs.ErrPermission):
		return e.Do("run the command as a user who may read it")
	}
	return e
}
