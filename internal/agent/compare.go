package agent

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/machine"
)

// diff holds all differences between a host and its configuration.
type diff struct {
	missing     []string
	users       []string // accounts that do not exist on the host
	directories []*op
	files       []*op
	binaries    []*op    // and other links
	packages    []string // wanted packages that are not installed
	replaced    []string // installed packages that they replace
	// stalePackages are packages that Naupegos installed and that are no longer wanted.
	stalePackages []string
	hooks         []machine.Change // of the machine's present stage
	modules       []string
	sysctls       []sysctlOp
	enables       []enableOp
	units         []unitOp
	ended         []endedProgram  // programs that do not run although their units do
	images        []machine.Image // images that containerd lacks, as far as known
	imagesKnown   bool            // containerd was asked; otherwise it is asked once it runs
	staleUnits    []string
	stalePaths    []string

	reload  bool                 // systemd must reload its units
	changed map[string]bool      // paths that change now, or changed in an interrupted run
	managed map[string]stPath    // all managed paths of the configuration
	states  map[string]unitState // state of units before the run
	resume  bool                 // the last run was interrupted
}

// empty reports whether there is nothing to do.
func (d *diff) empty() bool { return len(d.changes()) == 0 && !d.reload && !d.resume }

// changes lists the changes in order.
func (d *diff) changes() []machine.Change {
	var out []machine.Change
	for _, n := range d.staleUnits {
		out = append(out, machine.Change{Kind: "unit", Name: n, Action: "remove", Why: "is no longer in the configuration"})
	}
	for _, p := range d.stalePaths {
		out = append(out, machine.Change{Kind: "file", Name: p, Action: "remove", Why: "is no longer in the configuration"})
	}
	for _, p := range d.stalePackages {
		out = append(out, machine.Change{Kind: "package", Name: p, Action: "remove", Why: "is no longer in the configuration"})
	}
	for _, p := range d.replaced {
		out = append(out, machine.Change{Kind: "package", Name: p, Action: "remove", Why: "another package takes its place"})
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
	out = append(out, refreshChanges(d.changed)...)
	for _, u := range d.units {
		out = append(out, machine.Change{Kind: "unit", Name: u.name, Action: u.verb, Why: u.why})
	}
	return append(out, d.hooks...)
}

// compare compares everything and changes nothing. Files, systemd and containerd are queried in parallel.
func (a *Agent) compare(ctx context.Context, c machine.Config, st *state) (*diff, error) {
	d := &diff{changed: map[string]bool{}, managed: map[string]stPath{}, resume: len(st.Pending) > 0, users: a.missingUsers(c.Users)}
	if err := bootargs.Check(a.root, c.KernelArguments); err != nil {
		return nil, err
	}
	d.stalePackages, d.hooks = stalePackages(a, st, c.Packages), hookChanges(c.Hooks, stageOf(c, st))
	names := make([]string, len(c.Units))
	for i, u := range c.Units {
		names[i] = u.Name
	}
	var known map[string]string // nil if containerd can't be asked
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { d.states, err = a.unitStates(gctx, names); return err })
	g.Go(func() error { known = a.askImages(gctx, c); return nil })
	g.Go(func() (err error) {
		if d.packages, err = a.diffPackages(c.Packages); err == nil { // before paths: a package may make their owners
			err = a.comparePaths(c, st, d)
		}
		return err
	})
	g.Go(func() error { return a.overruled(c.Sysctls) })
	g.Go(func() (err error) {
		if d.modules, err = a.diffModules(c.Modules); err == nil {
			d.sysctls, err = a.diffSysctls(c.Sysctls, len(d.modules) > 0)
			d.sysctls = append(d.sysctls, staleSysctls(a, c.Sysctls, st.Sysctls)...)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, interrupted(ctx.Err())
		}
		return nil, err
	}
	for _, u := range c.Units {
		if s := d.states[u.Name]; u.Table != "" && s.running() {
			s.flushed = flushed(ctx, a.run, u.Table)
			d.states[u.Name] = s
		}
	}
	if err := a.compareBlobs(c, st, d, known); err != nil {
		return nil, err
	}
	return d, a.compareUnits(c, st, d)
}

// askImages returns nil if containerd does not run (yet).
func (a *Agent) askImages(ctx context.Context, c machine.Config) map[string]string {
	if len(c.Images) == 0 || !isSocket(a.path(containerdSocket)) {
		return nil
	}
	known, err := a.knownImages(ctx)
	if err != nil {
		return nil // it is asked again after its start, and the error is reported then
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
		if w.RenewedAt == "" || ours || o != nil { // a certificate that others put there before stays theirs
			d.managed[w.Path] = fileAsFound(a, w.Path, w.Secret)
			if w.RenewedAt != "" {
				d.managed[w.RenewedAt] = fileAsFound(a, w.RenewedAt, true)
			}
		}
		d.files = add(d.files, o)
	}
	for _, b := range c.Binaries {
		o, err := a.diffLink("binary", b.Path, blobFile(b.Digest))
		if err != nil {
			return err
		}
		d.managed[b.Path] = a.asFound(b.Path, "binary")
		d.binaries = add(d.binaries, o)
	}
	for _, l := range c.Links {
		o, err := a.diffLink("link", l.Path, l.Target)
		if err != nil {
			return err
		}
		d.managed[l.Path] = a.asFound(l.Path, "link")
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
	if !bootargs.Boots(a.root, c.KernelArguments) { // another program has rewritten GRUB's configuration
		d.changed[bootargs.File] = true
	}
	return nil
}

// asFound records the state of a path before it is managed. It counts only in the first run that manages the path: see nextState.
func (a *Agent) asFound(p, kind string) stPath {
	s := stPath{Kind: kind}
	f, err := a.look(p)
	if f == nil || err != nil { // the comparison has already reported the error
		return s
	}
	s.Found, s.Mode, s.UID, s.GID = true, f.info.Mode()&^fs.ModeType, f.uid, f.gid
	return s
}

// fileAsFound is asFound for a file, with the secret mark of its configuration.
func fileAsFound(a *Agent, p string, secret bool) stPath {
	s := a.asFound(p, "file")
	s.Secret = secret
	return s
}

// keepParents keeps managing unnamed parent directories that an earlier run made, as long as the configuration has paths below them.
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
	if known == nil { // until containerd runs, earlier observations and a prepared store are trusted
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
	if d.ended, err = ended(a, d, c.Units); err != nil {
		return err
	}
	d.units = unitOps(c.Units, d.states, d.changed, d.ended)
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
