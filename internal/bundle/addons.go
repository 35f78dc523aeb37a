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

// A bundle with addons is a separate bundle that contains every blob of the plain one and more: machines need no second source, shared blobs are
// stored once, and clusters without a cloud neither build nor receive addons.

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

// Title names the bundle for people: "v1.37.2", or "v1.37.2+openstack" with that set of addons.
func (m *Manifest) Title() string { return titleOf(m.Kubernetes, m.Addons) }

// ensureExtended gets the plain bundle and extends it with addons.
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

// extend makes a bundle with addons from a plain one, without compiling the plain one's content again.
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

// packages names the Debian packages from which the assembly's images take files.
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

// manifest returns the initial manifest: an empty one, or that of the base bundle with the set of addons.
func (a *assembly) manifest() *Manifest {
	if a.base == nil {
		return &Manifest{Schema: schemaVersion, Kubernetes: a.recipe.Kubernetes, Platform: hostPlatform(), Origin: a.origin, Repository: Repository}
	}
	m := a.base.Manifest
	m.Addons = []string{AddonOpenStack} // the only existing set
	m.Components, m.Images = slices.Clone(m.Components), slices.Clone(m.Images)
	return &m
}

// addComponents adds components to the manifest. If it already has another version of one (an older Go or Debian package), the new one
// is added under the name of the set of addons: "openstack/…".
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
