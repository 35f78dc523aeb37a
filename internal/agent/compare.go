package agent

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/machine"
)

// diff is all that differs between a host and its configuration.
type diff struct {
	missing     []string
	users       []string // accounts that the host lacks
	directories []*op
	files       []*op
	binaries    []*op
	packages    []string // that are not installed
	modules     []string
	sysctls     []sysctlOp
	enables     []enableOp
	units       []unitOp
	images      []machine.Image // that containerd lacks, as far as can be told
	imagesKnown bool            // containerd was asked; if not, it is once it runs
	staleUnits  []string
	stalePaths  []string

	reload  bool                 // systemd has to read its units again
	changed map[string]bool      // paths that change now, or changed in a run that was cut short
	managed map[string]stPath    // all paths of the configuration that are ours
	states  map[string]unitState // how units were found
	resume  bool                 // the last run was cut short
}

// empty reports whether there is nothing to do.
func (d *diff) empty() bool { return len(d.changes()) == 0 && !d.reload && !d.resume }

// changes lists what is done, in order.
func (d *diff) changes() []machine.Change {
	var out []machine.Change
	for _, n := range d.staleUnits {
		out = append(out, machine.Change{Kind: "unit", Name: n, Action: "remove", Why: "is no longer in the configuration"})
	}
	for _, p := range d.stalePaths {
		out = append(out, machine.Change{Kind: "file", Name: p, Action: "remove", Why: "is no longer in the configuration"})
	}
	for _, p := range d.packages {
		out = append(out, machine.Change{Kind: "package", Name: p, Action: "install"})
	}
	for _, u := range d.users {
		out = append(out, userChange(u))
	}
	for _, ops := range [][]*op{d.directories, d.files, d.binaries} {
		for _, o := range ops {
			out = append(out, o.Change)
		}
	}
	for _, s := range d.sysctls {
		out = append(out, s.change())
	}
	for _, img := range d.images {
		out = append(out, imageChange(img))
	}
	for _, e := range d.enables {
		out = append(out, e.change())
	}
	for _, u := range d.units {
		out = append(out, machine.Change{Kind: "unit", Name: u.name, Action: u.verb, Why: u.why})
	}
	return out
}

// compare looks at everything and changes nothing. Files, systemd and containerd are looked at side by side.
func (a *Agent) compare(ctx context.Context, c machine.Config, st *state) (*diff, error) {
	d := &diff{changed: map[string]bool{}, managed: map[string]stPath{}, resume: len(st.Pending) > 0, users: a.missingUsers(c.Users)}
	names := make([]string, len(c.Units))
	for i, u := range c.Units {
		names[i] = u.Name
	}
	var known map[string]string // nil where containerd can't be asked
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { d.states, err = a.unitStates(gctx, names); return err })
	g.Go(func() error { known = a.askImages(gctx, c); return nil })
	g.Go(func() error { return a.comparePaths(c, st, d) })
	g.Go(func() (err error) { d.packages, err = a.diffPackages(c.Packages); return err })
	g.Go(func() (err error) {
		if d.modules, err = a.diffModules(c.Modules); err == nil {
			d.sysctls, err = a.diffSysctls(c.Sysctls, len(d.modules) > 0)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, interrupted(ctx.Err())
		}
		return nil, err
	}
	if err := a.compareBlobs(c, st, d, known); err != nil {
		return nil, err
	}
	return d, a.compareUnits(c, st, d)
}

// askImages returns nil where containerd does not run (yet).
func (a *Agent) askImages(ctx context.Context, c machine.Config) map[string]string {
	if len(c.Images) == 0 || !isSocket(a.path(containerdSocket)) {
		return nil
	}
	known, err := a.knownImages(ctx, c)
	if err != nil {
		return nil // it is asked again, and the error reported, when it has been started
	}
	return known
}

func (a *Agent) comparePaths(c machine.Config, st *state, d *diff) error {
	files := a.wantedFiles(c)
	for _, dir := range a.wantedDirectories(c, files) {
		o, err := a.diffDirectory(d, dir)
		if err != nil {
			return err
		}
		d.managed[dir.Path] = a.asFound(dir.Path, "directory")
		d.directories = add(d.directories, o)
	}
	a.keepParents(st, d, files, c.Binaries)
	for _, w := range files {
		_, ours := st.Paths[w.Path]
		o, err := a.diffFile(d, w)
		if err != nil {
			return err
		}
		if w.RenewedAt == "" || ours || o != nil { // a certificate that somebody put there before us stays theirs
			d.managed[w.Path] = fileAsFound(a, w.Path, w.Secret)
			if w.RenewedAt != "" {
				d.managed[w.RenewedAt] = fileAsFound(a, w.RenewedAt, true)
			}
		}
		d.files = add(d.files, o)
	}
	for _, b := range c.Binaries {
		o, err := a.diffBinary(b)
		if err != nil {
			return err
		}
		d.managed[b.Path] = a.asFound(b.Path, "binary")
		d.binaries = add(d.binaries, o)
	}
	for p := range st.Paths {
		if _, ok := d.managed[p]; !ok {
			d.stalePaths = append(d.stalePaths, p)
		}
	}
	slices.SortFunc(d.stalePaths, func(x, y string) int { return strings.Compare(y, x) }) // children first
	for _, ops := range [][]*op{d.files, d.binaries} {
		for _, o := range ops {
			d.changed[o.path] = true
		}
	}
	for _, p := range append(slices.Clone(d.stalePaths), st.Pending...) {
		d.changed[p] = true
	}
	return nil
}

// asFound notes what a path is before it is ours. It counts only in the first run that manages the path: see nextState.
func (a *Agent) asFound(p, kind string) stPath {
	s := stPath{Kind: kind}
	f, err := a.look(p)
	if f == nil || err != nil { // the comparison has reported the error already
		return s
	}
	s.Found, s.Mode, s.UID, s.GID = true, f.info.Mode()&^fs.ModeType, f.uid, f.gid
	return s
}

// fileAsFound is asFound of a file, with the mark that its configuration gives it.
func fileAsFound(a *Agent, p string, secret bool) stPath {
	s := a.asFound(p, "file")
	s.Secret = secret
	return s
}

// keepParents goes on managing unnamed parents that an earlier run made, as long as something lies in them.
func (a *Agent) keepParents(st *state, d *diff, files []wantedFile, binaries []machine.Binary) {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	for _, b := range binaries {
		paths = append(paths, b.Path)
	}
	for p := range d.managed {
		paths = append(paths, p)
	}
	for p, s := range st.Paths {
		if s.Kind != "directory" || slices.Contains(paths, p) {
			continue
		}
		if slices.ContainsFunc(paths, func(q string) bool { return strings.HasPrefix(q, p+"/") }) {
			d.managed[p] = s
		}
	}
}

func (a *Agent) compareBlobs(c machine.Config, st *state, d *diff, known map[string]string) error {
	seen := map[string]bool{}
	need := func(digest string, size int64) error {
		has, err := a.HasBlob(digest, size)
		if err == nil && !has && !seen[digest] {
			d.missing = append(d.missing, digest)
		}
		seen[digest] = true
		return err
	}
	for _, b := range c.Binaries {
		if err := need(b.Digest, b.Size); err != nil {
			return err
		}
	}
	todo := imagesToImport(c.Images, known)
	if known == nil { // what was seen before, or lies in a prepared store, is believed until containerd runs
		todo = slices.DeleteFunc(slices.Clone(c.Images), func(i machine.Image) bool {
			return slices.Contains(st.Images, i.ID) || a.inStore(i.ID)
		})
	}
	d.images, d.imagesKnown = todo, known != nil
	for _, img := range todo {
		if err := need(img.Digest, img.Size); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) compareUnits(c machine.Config, st *state, d *diff) (err error) {
	if d.enables, err = a.enableOps(c.Units, d.states); err != nil {
		return err
	}
	d.units = unitOps(c.Units, d.states, d.changed)
	for name := range st.Units {
		if !slices.ContainsFunc(c.Units, func(u machine.Unit) bool { return u.Name == name }) {
			d.staleUnits = append(d.staleUnits, name)
		}
	}
	slices.Sort(d.staleUnits)
	for p := range d.changed {
		d.reload = d.reload || strings.HasPrefix(p, machine.UnitDir+"/")
	}
	for _, s := range d.states {
		d.reload = d.reload || s.stale
	}
	d.reload = d.reload || len(d.enables) > 0 || len(d.staleUnits) > 0
	return nil
}

func add(ops []*op, o *op) []*op {
	if o == nil {
		return ops
	}
	return append(ops, o)
}
