package bundle

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// AddonOpenStack is the set of addons that clusters on OpenStack need: the cloud controller manager and the Cinder CSI driver with
// its sidecars. Its images are ImageOpenStackCCM, ImageCinderCSI and ImageCinderCSINode.
const AddonOpenStack = "openstack"

// The images that a bundle with AddonOpenStack has beside the others.
const (
	ImageOpenStackCCM  = "openstack-cloud-controller-manager"
	ImageCinderCSI     = "cinder-csi"      // the driver's controller, csi-provisioner, csi-attacher and csi-resizer
	ImageCinderCSINode = "cinder-csi-node" // the driver on nodes, csi-registrar and Debian's tools for file systems
)

// A bundle with addons is a bundle of its own that holds all that the plain one holds, blob for blob, and more: what makes machines
// of it needs no second source, what is stored of it is stored once, and clusters without a cloud build and get none of it.

func checkAddons(sets []string) error {
	for _, s := range sets {
		if s != AddonOpenStack {
			return fail.New(fail.Invalid, "%q is not a set of addons that this naupegos has a recipe for", s).Do("use %s", AddonOpenStack)
		}
	}
	return nil
}

func sortedSets(sets []string) []string { return slices.Compact(slices.Sorted(slices.Values(sets))) }

func sameSets(a, b []string) bool { return slices.Equal(sortedSets(a), sortedSets(b)) }

func titleOf(kubernetes string, addons []string) string {
	return strings.Join(append([]string{kubernetes}, sortedSets(addons)...), "+")
}

// Title names the bundle for people: "v1.37.2", or "v1.37.2+openstack" where it has that set of addons.
func (m *Manifest) Title() string { return titleOf(m.Kubernetes, m.Addons) }

// ensureExtended gets the plain bundle and makes of it the one with addons.
func (l *Library) ensureExtended(ctx context.Context, version string, o EnsureOptions) (*Bundle, error) {
	if err := checkAddons(o.Addons); err != nil {
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

// extend makes of a plain bundle one with addons. It compiles nothing of the plain one.
func (l *Library) extend(ctx context.Context, base *Bundle, o BuildOptions) (*Bundle, error) {
	rec, err := findRecipe(base.Manifest.Kubernetes)
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
	a.base = base
	return a.make(ctx, func(ctx context.Context) (programs, []Component, error) {
		progs, made, err := l.compileAll(ctx, g, []component{rec.openstack()}, o.Parallel, a.report)
		return progs, append(made, sidecars()...), err
	})
}

// packages names the Debian packages that the assembly's images take something from.
func (a *assembly) packages() wanted {
	if a.base != nil {
		return wanted{alone: []string{"ca-certificates"}, withLibraries: storagePackages()}
	}
	return wanted{alone: []string{"ca-certificates"}, withLibraries: []string{"nftables", "iptables"}}
}

func (a *assembly) images(p programs, d *debianParts) ([]imageSpec, error) {
	if a.base != nil {
		return a.recipe.openstackImages(p, d)
	}
	return a.recipe.images(p, d)
}

// manifest is what the assembly begins with.
func (a *assembly) manifest() *Manifest {
	if a.base == nil {
		return &Manifest{Schema: schemaVersion, Kubernetes: a.recipe.Kubernetes, Platform: hostPlatform(), Origin: a.origin, Repository: Repository}
	}
	m := a.base.Manifest
	m.Addons = []string{AddonOpenStack} // the only set there is
	m.Components, m.Images = slices.Clone(m.Components), slices.Clone(m.Images)
	return &m
}

// addComponents names what is not named yet. Another version of something that is named (a newer Go, a newer Debian package)
// goes under the set of addons it is for.
func (m *Manifest) addComponents(list []Component) {
	for _, c := range list {
		switch i := slices.IndexFunc(m.Components, func(x Component) bool { return x.Name == c.Name }); {
		case i < 0:
			m.Components = append(m.Components, c)
		case m.Components[i] != c:
			c.Name = AddonOpenStack + "/" + c.Name
			m.Components = append(m.Components, c)
		}
	}
}
