package siteset

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of one source, and of all sources of a document.
const (
	maxFiles    = 2000
	maxUnpacked = 16 << 20
	maxPacked   = 1 << 20
	maxAll      = 3 << 20
)

// files are the files of a source by their slash-separated paths. A single file has its own name.
type files map[string][]byte

// pack compresses files. The same files give the same text.
func pack(fs files) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(fs[name])), Format: tar.FormatPAX}); err != nil {
			return "", err
		}
		if _, err := t.Write(fs[name]); err != nil {
			return "", err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return "", err
	}
	if b.Len() > maxPacked {
		return "", fail.New(fail.Invalid, "is larger than %d KiB even when it is compressed", maxPacked>>10).Do("leave out parts that the cluster does not need, or split it")
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack reads a source of a document, which may be untrusted.
func unpack(text string) (files, error) {
	if len(text) > base64.StdEncoding.EncodedLen(maxPacked) {
		return nil, fail.New(fail.Invalid, "is larger than %d KiB", maxPacked>>10)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "is not base64")
	}
	return untar(bytes.NewReader(data), "")
}

// untar reads a compressed archive within the limits. It strips the first element of paths if strip is set, and refuses links and paths that lead out.
func untar(r io.Reader, strip string) (files, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "is no compressed archive")
	}
	out, left := files{}, int64(maxUnpacked)
	for t := tar.NewReader(io.LimitReader(z, 2*maxUnpacked)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "the archive can't be read")
		}
		name := path.Clean(strings.ReplaceAll(h.Name, "\\", "/"))
		switch {
		case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader, strings.HasPrefix(path.Base(name), "._"): // the last: macOS keeps attributes of files in them
			continue
		case h.Typeflag != tar.TypeReg:
			return nil, fail.New(fail.Refused, "the archive holds %q, which is neither a file nor a directory", h.Name)
		case path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../"):
			return nil, fail.New(fail.Refused, "the archive holds %q, which leads out of it", h.Name)
		case len(out) == maxFiles:
			return nil, fail.New(fail.Refused, "the archive holds more than %d files", maxFiles)
		case h.Size > left:
			return nil, fail.New(fail.Refused, "the archive holds more than %d MiB", maxUnpacked>>20)
		}
		if strip != "" {
			_, below, ok := strings.Cut(name, "/")
			if !ok {
				return nil, fail.New(fail.Invalid, "the archive holds %q outside of the %s's directory", h.Name, strip)
			}
			name = below
		}
		data, err := io.ReadAll(io.LimitReader(t, h.Size))
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "the archive can't be read")
		}
		left -= int64(len(data))
		out[name] = data
	}
}
