package boot

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/within"
)

// Assets opens kernels and images by their names below /assets/.
type Assets interface {
	// Open opens a regular file. It returns fs.ErrNotExist if the name does not exist.
	Open(ctx context.Context, name string) (*os.File, error)
}

// AssetsOf serves the files of assets/ in a data directory. The path may be a link, which is resolved at each call.
type AssetsOf string

// Open implements Assets.
func (a AssetsOf) Open(_ context.Context, name string) (*os.File, error) {
	d, err := within.Open(string(a))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(path.Join("assets", path.Clean("/"+name)))
}

// asset serves a file. It does not list directories.
func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/assets/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	f, err := s.Assets.Open(r.Context(), clean(name))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && r.Context().Err() == nil { // else the client is gone
			s.strangers.Warn(r.Context(), "a file was not given out", r.RemoteAddr, slog.String("path", r.URL.Path), slog.String("reason", err.Error()))
		}
		http.NotFound(w, r)
		return
	}
	defer f.Close() // only read from
	info, err := f.Stat()
	if err != nil {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, path.Base(name), info.ModTime(), f)
}
