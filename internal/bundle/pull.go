package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	parallelDownloads = 4
	maxProgram        = 1 << 30 // bytes of one program in an archive
)

// Pull makes a bundle from the projects' official downloads, each verified against the SHA-256 that the recipe pins; our own few small
// programs are compiled, and nftables, iptables and certificates come from Debian packages. A cut connection is resumed, and an
// interrupted pull continues with the next file. fail.Refused if a checksum does not match, or the recipe has none and o.Unpinned is false;
// fail.NotFound if a file is missing, fail.Unreachable if the network fails.
func (l *Library) Pull(ctx context.Context, o PullOptions) (*Bundle, error) {
	rec, err := findRecipe(o.Kubernetes)
	if err != nil {
		return nil, err
	}
	list := rec.downloads(o.BaseURLs.orOfficial())
	if err := checkPins(list, o.Unpinned); err != nil {
		return nil, err
	}
	g, err := newGoTool(ctx, o.Go)
	if err != nil {
		return nil, err
	}
	a, unlock, err := l.assemble(ctx, rec, originPulled, o.Progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return a.make(ctx, func(ctx context.Context) (programs, []Component, error) {
		progs, components, err := l.pullAll(ctx, newFetcher(), list, a.report)
		if err != nil {
			return nil, nil, err
		}
		own, made, err := l.compileAll(ctx, g, []component{rec.tools()}, 1, a.report)
		for name, p := range own {
			progs[name] = p
		}
		return progs, append(components, made...), err
	})
}

// pullAll downloads files, some at the same time.
func (l *Library) pullAll(ctx context.Context, f *fetcher, list []download, r *reporter) (programs, []Component, error) {
	var mu sync.Mutex
	out := programs{}
	from := map[string]Component{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelDownloads)
	for _, d := range list {
		group.Go(func() error {
			e, err := l.pullOne(ctx, f, d, r)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			out.addAll(d.component, e)
			from[d.component] = Component{Name: d.component, Version: d.version, Source: publicURL(path.Split(d.url))}
			return nil
		})
	}
	err := group.Wait()
	var components []Component
	for _, name := range sortedKeys(from) {
		components = append(components, from[name])
	}
	return out, components, err
}

// pullOne gets a file's checksum, and downloads the file unless the cache has it.
func (l *Library) pullOne(ctx context.Context, f *fetcher, d download, r *reporter) (*cacheEntry, error) {
	file := path.Base(d.url)
	t := r.begin(d.component+"/"+file, PhaseDownload, 0)
	want, err := f.checksum(ctx, d)
	if err != nil {
		return nil, err
	}
	name := "pull-" + file
	if e, err := l.cached(ctx, name, want); err != nil || e != nil {
		t.finish(true)
		return e, err
	}
	dir, remove, err := l.workDir("pull")
	if err != nil {
		return nil, err
	}
	defer remove()
	raw, out := filepath.Join(dir, "raw"), filepath.Join(dir, "out")
	if err := f.file(ctx, d.url, raw, t); err != nil {
		return nil, err
	}
	got, err := fileDigest(ctx, raw)
	if err != nil {
		return nil, ioError(err, "verify download", raw)
	}
	if got != "sha256:"+want {
		return nil, fail.New(fail.Refused, "the downloaded file has the digest %s, %s sha256:%s", got, d.vouched(), want).At(shown(d.url)).
			Do("do not use it; try again, or another mirror")
	}
	if err := d.unpack(raw, out); err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "unpack download").At(shown(d.url))
	}
	t.finish(false)
	if d.pin == "" {
		r.note(d.component, "unpinned: "+want+"  "+d.pinName())
	}
	return l.store(ctx, name, want, out, d.names())
}

// checksum returns the expected digest (hex) of a file: the one that the recipe pins, else the published one.
func (f *fetcher) checksum(ctx context.Context, d download) (string, error) {
	if d.pin != "" {
		return d.pin, nil
	}
	document, err := f.text(ctx, d.sums)
	if err != nil {
		return "", err
	}
	want, err := d.find(document, path.Base(d.url))
	if err != nil {
		return "", fail.Wrap(fail.KindOf(err), err, "verify download").At(shown(d.sums))
	}
	return want, nil
}

// vouched describes the source of the checksum.
func (d download) vouched() string {
	if d.pin != "" {
		return "the recipe pins"
	}
	return "the project publishes"
}

func (d download) names() []string {
	if d.programs == nil {
		return []string{d.name}
	}
	return sortedKeys(d.programs)
}

// unpack puts the programs into the new directory out.
func (d download) unpack(raw, out string) error {
	if err := os.Mkdir(out, 0o755); err != nil {
		return ioError(err, "unpack", out)
	}
	if d.programs == nil {
		to := filepath.Join(out, d.name)
		if err := errors.Join(os.Rename(raw, to), os.Chmod(to, 0o755)); err != nil {
			return ioError(err, "unpack", to)
		}
		return nil
	}
	f, err := os.Open(raw)
	if err != nil {
		return ioError(err, "unpack", raw)
	}
	defer f.Close() // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return d.extract(tar.NewReader(z), out)
}

// extract extracts exactly the wanted programs from an archive and skips all other entries.
func (d download) extract(t *tar.Reader, out string) error {
	waiting := map[string]string{}
	for name, at := range d.programs {
		waiting[at] = name
	}
	for len(waiting) > 0 {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive lacks %v", sortedKeys(waiting))
		} else if err != nil {
			return err
		}
		at := path.Clean(h.Name)
		name, ok := waiting[at]
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxProgram {
			return fmt.Errorf("%s has %d bytes", at, h.Size)
		}
		delete(waiting, at)
		if err := extractFile(t, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return nil
}

func extractFile(r io.Reader, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return ioError(err, "unpack", path)
	}
	disk := &diskWriter{w: f}
	_, err = io.Copy(disk, r)
	closeErr := f.Close()
	if disk.err != nil || closeErr != nil {
		return ioError(errors.Join(disk.err, closeErr), "unpack", path)
	}
	return err
}
