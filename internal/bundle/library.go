package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/userdir"
)

// Library is a directory of bundles: blobs/sha256/<hex>, manifests/<id>.json, and a cache of compiled and downloaded files.
// Any number of processes may read it; writers take its lock.
type Library struct {
	root string
}

// DefaultRoot returns $XDG_CACHE_HOME/naupegos/bundles, with the user's cache directory if the variable is unset.
func DefaultRoot() (string, error) {
	dir, err := userdir.Cache()
	return filepath.Join(dir, "bundles"), err
}

// OpenLibrary opens the library at root and creates missing directories.
func OpenLibrary(root string) (*Library, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "open bundle library").At(root)
	}
	l := &Library{root: abs}
	for _, dir := range []string{l.blobDir(), l.manifestDir(), l.cacheDir(), l.tmpDir()} {
		if err := userdir.Make(dir, 0o755); err != nil {
			return nil, ioError(err, "open bundle library", dir)
		}
	}
	return l, nil
}

// Root returns the library's directory.
func (l *Library) Root() string { return l.root }

func (l *Library) blobDir() string     { return filepath.Join(l.root, "blobs", "sha256") }
func (l *Library) manifestDir() string { return filepath.Join(l.root, "manifests") }
func (l *Library) cacheDir() string    { return filepath.Join(l.root, "cache") }
func (l *Library) tmpDir() string      { return filepath.Join(l.root, "tmp") }

// List returns all bundles, the newest Kubernetes version first, and within a version the most recently added bundle first.
func (l *Library) List(ctx context.Context) ([]*Bundle, error) {
	entries, err := os.ReadDir(l.manifestDir())
	if err != nil {
		return nil, ioError(err, "list bundles", l.manifestDir())
	}
	var out []*Bundle
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !isHex(id) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := l.Get(ctx, id)
		if fail.KindOf(err) == fail.NotFound {
			continue // another process removed it meanwhile
		} else if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	sort.SliceStable(out, func(i, j int) bool {
		if c := release.Compare(out[i].Manifest.Kubernetes, out[j].Manifest.Kubernetes); c != 0 {
			return c > 0
		}
		return out[i].Latest.After(out[j].Latest)
	})
	return out, nil
}

// Get returns the bundle with this ID or unique prefix of an ID; fail.NotFound if there is none.
func (l *Library) Get(_ context.Context, id string) (*Bundle, error) {
	full, err := l.resolve(id)
	if err != nil {
		return nil, err
	}
	path := l.manifestPath(full)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "no bundle %s", id).Do("see `naupegos bundle list`").Confide("  bundles are in %s", l.root)
	} else if err != nil {
		return nil, ioError(err, "read bundle manifest", path)
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read bundle manifest").At(path).Do("remove the bundle and build, pull or import it again")
	}
	if got := idOf(data); got != full {
		return nil, fail.New(fail.Invalid, "manifest does not have the digest its name says: %s", got).At(path).
			Do("remove the bundle and build, pull or import it again")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, ioError(err, "read bundle manifest", path)
	}
	b := &Bundle{ID: full, Manifest: m, Added: info.ModTime(), Latest: info.ModTime(), blobs: l.blobDir()}
	if first, err := os.Stat(l.addedPath(full)); err == nil {
		b.Added = first.ModTime()
	}
	return b, nil
}

// addedPath is the file whose time says when a bundle was added that was made again since. Without it, the manifest's time does.
func (l *Library) addedPath(id string) string { return filepath.Join(l.manifestDir(), id+".added") }

func (l *Library) manifestPath(id string) string { return filepath.Join(l.manifestDir(), id+".json") }

// resolve turns a unique prefix (4 digits or more) into the whole ID.
func (l *Library) resolve(id string) (string, error) {
	if !isHexDigits(id) || len(id) < 4 || len(id) > 64 {
		return "", fail.New(fail.Invalid, "%q is not a bundle ID", id).Do("give a Kubernetes version such as " + release.Default + ", or at least 4 digits of an ID that naupegos bundle list shows")
	}
	if len(id) == 64 {
		return id, nil
	}
	found, err := filepath.Glob(filepath.Join(l.manifestDir(), id+"*.json"))
	switch {
	case err != nil:
		return "", fail.Wrap(fail.Internal, err, "find bundle %s", id)
	case len(found) == 0:
		return "", fail.New(fail.NotFound, "no bundle %s", id).Do("see `naupegos bundle list`").Confide("  bundles are in %s", l.root)
	case len(found) > 1:
		return "", fail.New(fail.Invalid, "%d bundles begin with %s", len(found), id).Do("give more digits")
	}
	return strings.TrimSuffix(filepath.Base(found[0]), ".json"), nil
}

// Find returns the newest bundle of a Kubernetes version ("v1.37.2") with exactly these sets of addons for this
// machine's platform; fail.NotFound if there is none.
func (l *Library) Find(ctx context.Context, kubernetes string, addons ...string) (*Bundle, error) {
	all, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		m := &b.Manifest
		if m.Kubernetes == kubernetes && m.Platform == hostPlatform() && sameSets(m.Addons, addons) {
			return b, nil
		}
	}
	with, others := "", "bundle pull, bundle import"
	for _, set := range addons {
		with, others = with+" --addons "+set, "bundle import" // addons' programs are always built
	}
	missing := fail.New(fail.NotFound, "no bundle of Kubernetes %s for %s", titleOf(kubernetes, addons), hostPlatform()).Confide("  bundles are in %s", l.root)
	if !slices.Contains(release.Versions(), kubernetes) {
		return nil, missing.Do("naupegos bundle list shows the built ones; this naupegos builds %s", strings.Join(release.Versions(), ", "))
	}
	return nil, missing.Do("make one: naupegos bundle build --kubernetes %s%s, or use %s", kubernetes, with, others)
}

// register writes the manifest, which makes the bundle exist. All its blobs must be stored already.
func (l *Library) register(ctx context.Context, m Manifest) (*Bundle, error) {
	m.sort()
	data, err := m.encode()
	if err != nil {
		return nil, err
	}
	id := idOf(data)
	if b, err := l.Get(ctx, id); err == nil {
		if err := l.rememberAdded(b); err != nil {
			return nil, err
		}
		now := time.Now() // makes it the newest again
		if err := os.Chtimes(l.manifestPath(id), now, now); err != nil {
			return nil, ioError(err, "register bundle", l.manifestPath(id))
		}
		b.Latest = now
		return b, nil
	}
	if err := writeFile(l.manifestPath(id), data, 0o644); err != nil {
		return nil, err
	}
	return l.Get(ctx, id)
}

// rememberAdded keeps the time at which a bundle was added.
func (l *Library) rememberAdded(b *Bundle) error {
	path := l.addedPath(b.ID)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := writeFile(path, nil, 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(path, b.Added, b.Added); err != nil {
		return ioError(err, "register bundle", path)
	}
	return nil
}

// Remove deletes a bundle and every blob and cached result that no other bundle uses.
func (l *Library) Remove(ctx context.Context, id string) error {
	unlock, err := l.write(ctx, shortWait)
	if err != nil {
		return err
	}
	defer unlock()
	full, err := l.resolve(id)
	if err != nil {
		return err
	}
	// Not l.Get: a bundle whose manifest is damaged must be removable too.
	if err := os.Remove(l.manifestPath(full)); errors.Is(err, fs.ErrNotExist) {
		return fail.New(fail.NotFound, "no bundle %s", id).Do("see `naupegos bundle list`").Confide("  bundles are in %s", l.root)
	} else if err != nil {
		return ioError(err, "remove bundle", l.manifestPath(full))
	}
	if err := os.Remove(l.addedPath(full)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError(err, "remove bundle", l.addedPath(full))
	}
	return l.sweep(ctx)
}

// sweep deletes blobs that no manifest and no set names, and cached results without a used blob: they share the same bytes on disk.
func (l *Library) sweep(ctx context.Context) error {
	all, err := l.List(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, b := range all {
		for _, a := range b.Manifest.artifacts() {
			used[hexOf(a.Digest)] = true
		}
	}
	sets, err := l.Sets(ctx)
	if err != nil {
		return err
	}
	for _, s := range sets {
		for _, a := range s.Artifacts() {
			used[hexOf(a.Digest)] = true
		}
	}
	blobs, err := os.ReadDir(l.blobDir())
	if err != nil {
		return ioError(err, "list blobs", l.blobDir())
	}
	for _, e := range blobs {
		if used[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(l.blobDir(), e.Name())); err != nil {
			return ioError(err, "remove blob", e.Name())
		}
	}
	return l.sweepCache(used)
}

// sweepCache removes unreadable cached results and those without a file that a bundle uses.
func (l *Library) sweepCache(used map[string]bool) error {
	entries, err := os.ReadDir(l.cacheDir())
	if err != nil {
		return ioError(err, "list cache", l.cacheDir())
	}
	for _, e := range entries {
		dir := filepath.Join(l.cacheDir(), e.Name())
		if entry, err := readEntry(dir); err == nil && entry.usedBy(used) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return ioError(err, "remove cache", dir)
		}
	}
	return nil
}
