package content

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// File is one file of a container image.
type File struct {
	Path   string      // in the image, absolute
	Source string      // on disk; empty for Data or Link
	Data   []byte      //
	Link   string      // target of a symbolic link
	Mode   fs.FileMode // of a regular file
}

// Write writes files, sorted, with the directories that they need, owned by root and with a time in 1970, so that the result depends only on them.
func Write(ctx context.Context, w *tar.Writer, files []File) error {
	files = append([]File(nil), files...)
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	for _, d := range directories(files) {
		mode := int64(0o755)
		if d == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := Add(w, f); err != nil {
			return err
		}
	}
	return nil
}

// Add writes one file.
func Add(w *tar.Writer, f File) error {
	h := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if f.Link != "" {
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return w.WriteHeader(h)
	}
	h.Typeflag, h.Mode, h.Size = tar.TypeReg, int64(f.Mode.Perm()), int64(len(f.Data))
	if f.Source == "" {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(f.Data)
		return err
	}
	src, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer src.Close() // read only
	info, err := src.Stat()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, src)
	return err
}

// directories returns every directory that the files need, and /tmp.
func directories(files []File) []string {
	seen := map[string]bool{"tmp/": true}
	for _, f := range files {
		for d := path.Dir(strings.TrimPrefix(f.Path, "/")); d != "."; d = path.Dir(d) {
			seen[d+"/"] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
