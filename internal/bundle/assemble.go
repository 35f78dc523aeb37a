package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
)

// assembly turns programs and Debian packages into a bundle.
type assembly struct {
	lib    *Library
	recipe recipe
	origin string
	report *reporter
	base   *Bundle    // the bundle that this one extends; nil: none
	sets   []addonSet // with which it extends it
}

// ingredients are the inputs of pack.
type ingredients struct {
	programs   programs
	components []Component
	debs       []deb
	packages   []*cacheEntry // of debs
}

// assemble takes the library's lock for a build or pull, and checks the free disk space. The caller must call the returned function to unlock.
func (l *Library) assemble(ctx context.Context, r recipe, origin string, progress func(Event)) (*assembly, func(), error) {
	a := &assembly{lib: l, recipe: r, origin: origin, report: &reporter{to: progress}}
	unlock, err := l.write(ctx, 0)
	if fail.KindOf(err) == fail.Conflict {
		a.report.note("library", "waiting until another naupegos has written its bundle to "+l.root)
		unlock, err = l.write(ctx, longWait)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := l.checkSpace(); err != nil {
		unlock()
		return nil, nil, err
	}
	return a, unlock, nil
}

// make gets the programs and, at the same time, the Debian packages. Then it packs the bundle, unless the library has one of exactly these
// ingredients, and registers it.
func (a *assembly) make(ctx context.Context, get func(context.Context) (programs, []Component, error)) (*Bundle, error) {
	d, err := newDebian(a.lib)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var in ingredients
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		in.debs, in.packages, err = fetchDebian(groupCtx, d, a.packages(), a.report)
		return
	})
	group.Go(func() (err error) { in.programs, in.components, err = get(groupCtx); return })
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, fail.Wrap(fail.Interrupted, ctx.Err(), "make bundle of Kubernetes %s", a.recipe.Kubernetes).Do("run it again: it continues where it stopped")
		}
		return nil, err
	}
	key, err := a.key(in)
	if err != nil {
		return nil, err
	}
	if m, err := a.known(ctx, key); err != nil {
		return nil, err
	} else if m != nil {
		a.report.begin("images", PhasePackage, 0).finish(true)
		return a.lib.register(ctx, *m)
	}
	m, err := a.pack(ctx, d, in)
	if err != nil {
		return nil, err
	}
	if err := a.remember(ctx, key, *m); err != nil {
		return nil, err
	}
	return a.lib.register(ctx, *m)
}

// key returns a digest of everything that determines the bundle.
func (a *assembly) key(in ingredients) (string, error) {
	specs, err := a.images(in.programs, &debianParts{})
	if err != nil {
		return "", err
	}
	digests := map[string]string{}
	for name, p := range in.programs {
		digests[name] = p.Digest
	}
	if a.base != nil {
		return cacheKey([]any{schemaVersion, "extends", a.base.ID, specs, digests, in.components, in.debs})
	}
	plain := a.recipe.Release
	plain.OpenStack = ""
	return cacheKey([]any{schemaVersion, plain, a.origin, hostBinaries(), specs, digests, in.components, in.debs})
}

const bundleEntry = "bundle"

// known returns the manifest made earlier from the ingredients with this key, or nil if there is none or the library lacks one of its blobs.
func (a *assembly) known(ctx context.Context, key string) (*Manifest, error) {
	e, err := a.lib.cached(ctx, bundleEntry, key)
	if err != nil || e == nil {
		return nil, err
	}
	data, err := os.ReadFile(e.path(exportManifest))
	if err != nil {
		return nil, ioError(err, "read bundle manifest", e.dir)
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, nil //nolint:nilerr // of another version of this program: recreated
	}
	for _, art := range m.artifacts() {
		info, err := os.Stat(filepath.Join(a.lib.blobDir(), hexOf(art.Digest)))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != art.Size {
			return nil, nil
		} else if err != nil {
			return nil, ioError(err, "look for "+art.Name, a.lib.blobDir())
		}
	}
	return &m, nil
}

func (a *assembly) remember(ctx context.Context, key string, m Manifest) error {
	dir, remove, err := a.lib.workDir(bundleEntry)
	if err != nil {
		return err
	}
	defer remove()
	data, err := m.encode()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, exportManifest), data, 0o644); err != nil {
		return err
	}
	_, err = a.lib.store(ctx, bundleEntry, key, dir, []string{exportManifest})
	return err
}

// pack stores binaries, images and the bill of materials, and returns the manifest that names them.
func (a *assembly) pack(ctx context.Context, d *debian, in ingredients) (*Manifest, error) {
	t := a.report.begin("images", PhasePackage, 0)
	dir, remove, err := a.lib.workDir("debian")
	if err != nil {
		return nil, err
	}
	defer remove()
	parts, err := unpackDebian(ctx, d, in.debs, in.packages, dir, a.take)
	if err != nil {
		return nil, err
	}
	m := a.manifest()
	m.addComponents(in.components)
	for _, p := range parts.used {
		m.addComponents([]Component{{Name: "debian/" + p.Name, Version: p.Version, Source: p.source()}})
	}
	if a.base == nil {
		err = a.packBinaries(ctx, m, in.programs)
	}
	if err != nil {
		return nil, err
	}
	if err := a.packImages(ctx, m, in.programs, parts, t); err != nil {
		return nil, err
	}
	sbom, err := a.lib.addSBOM(ctx, *m, a.base, in.programs, parts.used)
	if err != nil {
		return nil, err
	}
	definitions, err := a.packDefinitions(ctx, in.programs)
	if err != nil {
		return nil, err
	}
	m.Files = append(definitions, sbom)
	m.sort()
	t.finish(false)
	return m, nil
}

func (a *assembly) packBinaries(ctx context.Context, m *Manifest, progs programs) error {
	names := hostBinaries()
	for _, name := range sortedKeys(names) {
		p, ok := progs[names[name]]
		if !ok {
			return fail.New(fail.Internal, "program %q is missing", names[name])
		}
		art := Artifact{Name: name, Digest: p.Digest, Size: p.Size}
		if err := a.lib.addFile(ctx, art, p.file, 0o755); err != nil {
			return err
		}
		m.Binaries = append(m.Binaries, art)
	}
	return nil
}

func (a *assembly) packImages(ctx context.Context, m *Manifest, progs programs, parts *debianParts, t *task) error {
	specs, err := a.images(progs, parts)
	if err != nil {
		return err
	}
	t.ev.Total = int64(len(specs))
	for _, s := range specs {
		image, err := a.lib.writeImage(ctx, s)
		if err != nil {
			return err
		}
		m.Images = append(m.Images, image)
		t.add(1)
	}
	return nil
}
