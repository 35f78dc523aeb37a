package bundle

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/bundle/content"
	"github.com/naupegos/naupegos/internal/fail"
)

// The sets of addons that need more than compiled programs, by the names with which users request them in bundles. Package catalogue has the others.
const (
	AddonOpenStack = "openstack"  // for clusters on OpenStack: the cloud controller manager, and the Cinder CSI driver with its sidecars
	AddonLocalPath = "local-path" // volumes in a directory of the node: Rancher's provisioner
)

// addonSet is a set of addons: its compiled programs and its images.
type addonSet struct {
	name     string
	compiled func(recipe) []component
	parts    []Component                            // versions of further programs that the component compiles
	debian   []string                               // Debian packages whose files the images take, with the libraries that they depend on
	take     func(*debianParts, content.Tree) error // selects the files of these packages; nil: none
	images   func(recipe, programs, *debianParts) ([]imageSpec, error)
}

// addonSets is the table of the sets, sorted by name.
func addonSets() []addonSet {
	out := []addonSet{
		{name: AddonLocalPath, compiled: func(recipe) []component { return []component{localPath()} }, debian: []string{"busybox-static"}, take: (*debianParts).takeShell, images: localPathImages},
		{name: AddonOpenStack, compiled: func(r recipe) []component { return []component{r.openstack()} }, parts: sidecars(), debian: storagePackages(), take: (*debianParts).takeStorage, images: recipe.openstackImages},
	}
	for _, s := range catalogue.Sets() {
		out = append(out, addonSet{name: s.Name, compiled: func(recipe) []component { return compiled(s) },
			images: func(_ recipe, p programs, d *debianParts) ([]imageSpec, error) { return imagesOf(s, p, d) }})
	}
	slices.SortFunc(out, func(a, b addonSet) int { return strings.Compare(a.name, b.name) })
	return out
}

func compiled(s catalogue.Set) (out []component) {
	for _, s := range s.All() {
		c := component{name: s.Name, version: s.Version, module: s.Module, tags: s.Tags, ldflags: strip + s.LDFlags, derive: s.Derive, definitions: s.Definitions}
		for _, p := range s.Programs {
			c.targets = append(c.targets, target{p.File(), p.Package})
		}
		out = append(out, c)
	}
	return out
}

// imagesOf returns the images of a set of the catalogue, for all machines.
func imagesOf(s catalogue.Set, progs programs, d *debianParts) (out []imageSpec, _ error) {
	b := &imageBuilder{programs: progs}
	for _, s := range s.All() {
		for _, p := range s.Programs {
			i := imageSpec{Name: p.Image, Tag: s.Tag(), Roles: []string{roleControlPlane, roleWorker}, Entry: []string{p.Path()}, User: nobody,
				Files: append([]content.File{b.put(p.Path(), p.File())}, accounts()...)}
			if p.Root {
				i.User = ""
			}
			for _, at := range sortedKeys(p.Links) {
				i.Files = append(i.Files, content.File{Path: at, Link: p.Links[at]})
			}
			if p.Authorities {
				i.Files = append(i.Files, content.File{Path: authoritiesPath, Data: d.authorities, Mode: 0o644})
			}
			out = append(out, i)
		}
	}
	return out, b.err
}

// AddonSets returns the names of all sets of addons, sorted.
func AddonSets() (out []string) {
	for _, s := range addonSets() {
		out = append(out, s.name)
	}
	return out
}

// A bundle with addons is a separate bundle that contains every blob of the plain one and more: machines need no second source, shared blobs are
// stored once, and a cluster receives only the addons that it uses.

// findSets returns the sets of these names, sorted.
func findSets(names []string) ([]addonSet, error) {
	var out []addonSet
	for _, name := range sortedSets(names) {
		i := slices.IndexFunc(addonSets(), func(s addonSet) bool { return s.name == name })
		if i < 0 {
			return nil, fail.New(fail.Invalid, "%q is not a set of addons that this naupegos has a recipe for", name).Do("use %s", strings.Join(AddonSets(), ", "))
		}
		out = append(out, addonSets()[i])
	}
	return out, nil
}

func sortedSets(sets []string) []string { return slices.Compact(slices.Sorted(slices.Values(sets))) }

func sameSets(a, b []string) bool { return slices.Equal(sortedSets(a), sortedSets(b)) }

func titleOf(kubernetes string, addons []string) string {
	return strings.Join(append([]string{kubernetes}, sortedSets(addons)...), "+")
}

// Title names the bundle for people: "v1.37.2", or "v1.37.2+openstack" with that set of addons.
func (m *Manifest) Title() string { return titleOf(m.Kubernetes, m.Addons) }

// Has reports whether the bundle has all these sets of addons.
func (m *Manifest) Has(sets []string) bool {
	return !slices.ContainsFunc(sets, func(s string) bool { return !slices.Contains(m.Addons, s) })
}

// ensureExtended ensures the plain bundle and extends it with addons.
func (l *Library) ensureExtended(ctx context.Context, version string, o EnsureOptions) (*Bundle, error) {
	if _, err := findSets(o.Addons); err != nil {
		return nil, err
	}
	plain := o
	plain.Addons = nil
	base, err := l.Ensure(ctx, version, plain)
	if err != nil {
		return nil, err
	}
	return l.extend(ctx, base, BuildOptions{Kubernetes: version, Addons: o.Addons, Progress: o.Progress, Parallel: o.Parallel, Go: o.Go})
}

// extend makes a bundle with addons from a plain one, without compiling the plain bundle's content again.
func (l *Library) extend(ctx context.Context, base *Bundle, o BuildOptions) (*Bundle, error) {
	rec, err := findRecipe(base.Manifest.Kubernetes)
	if err != nil {
		return nil, err
	}
	sets, err := findSets(o.Addons)
	if err != nil {
		return nil, err
	}
	g, err := newGoTool(ctx, o.Go)
	if err != nil {
		return nil, err
	}
	a, unlock, err := l.assemble(ctx, rec, base.Manifest.Origin, o.Progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	a.base, a.sets = base, sets
	return a.make(ctx, func(ctx context.Context) (programs, []Component, error) {
		var all []component
		var parts []Component
		for _, s := range sets {
			all = append(all, s.compiled(rec)...)
			parts = append(parts, s.parts...)
		}
		progs, made, err := l.compileAll(ctx, g, all, o.Parallel, a.report)
		return progs, append(made, parts...), err
	})
}

// packages names the Debian packages from which the assembly's images take files.
func (a *assembly) packages() wanted {
	w := wanted{alone: []string{"ca-certificates"}}
	if a.base == nil {
		w.withLibraries = []string{"nftables", "iptables"}
	}
	for _, s := range a.sets {
		w.withLibraries = append(w.withLibraries, s.debian...)
	}
	return w
}

// take selects the files that the assembly's images take from its Debian packages.
func (a *assembly) take(p *debianParts, tr content.Tree) error {
	if a.base == nil {
		return p.takeNetfilter(tr)
	}
	for _, s := range a.sets {
		if s.take == nil {
			continue
		}
		if err := s.take(p, tr); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) images(p programs, d *debianParts) (out []imageSpec, _ error) {
	if a.base == nil {
		return a.recipe.images(p, d)
	}
	for _, s := range a.sets {
		specs, err := s.images(a.recipe, p, d)
		if err != nil {
			return nil, err
		}
		out = append(out, specs...)
	}
	return out, nil
}

// names returns the names of the assembly's sets of addons.
func (a *assembly) names() []string {
	var out []string
	for _, s := range a.sets {
		out = append(out, s.name)
	}
	return out
}

// manifest returns the initial manifest: an empty one, or the base bundle's with the sets of addons.
func (a *assembly) manifest() *Manifest {
	if a.base == nil {
		return &Manifest{Schema: schemaVersion, Kubernetes: a.recipe.Kubernetes, Platform: hostPlatform(), Origin: a.origin, Repository: Repository}
	}
	m := a.base.Manifest
	m.Addons = a.names()
	m.Components, m.Images = slices.Clone(m.Components), slices.Clone(m.Images)
	return &m
}

// addComponents adds components to the manifest. If the manifest already contains another version of a component (an older Go or Debian package), the
// new one is added under the names of the sets of addons: "openstack/…".
func (m *Manifest) addComponents(list []Component) {
	for _, c := range list {
		switch i := slices.IndexFunc(m.Components, func(x Component) bool { return x.Name == c.Name }); {
		case i < 0:
			m.Components = append(m.Components, c)
		case m.Components[i] != c:
			c.Name = strings.Join(m.Addons, "+") + "/" + c.Name
			m.Components = append(m.Components, c)
		}
	}
}
