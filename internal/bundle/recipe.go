package bundle

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// recipes contains, for each component, the lock files (go.mod, go.sum) of pinned versions and our own Go files.
// Their names have an additional suffix (.lock, .txt), so that embedding accepts them and this module does not compile them.
//
//go:embed recipes
var recipes embed.FS

// Repository is the image repository of the bundles that this package makes.
const Repository = "naupegos.dev/k8s"

// recipe describes how to make a release.
type recipe struct {
	release.Release
	pins map[string]string // digests of pulled files, by download.pinName
}

func findRecipe(kubernetes string) (recipe, error) {
	r, ok := release.Find(kubernetes)
	if !ok {
		return recipe{}, fail.New(fail.Invalid, "Kubernetes %q is not a release that this naupegos has a recipe for", kubernetes).
			Do("use one of %s", strings.Join(release.Versions(), ", "))
	}
	known, err := pins()
	return recipe{r, known}, err
}

// CheckRelease returns an error for a release without a recipe.
func CheckRelease(kubernetes string) error {
	_, err := findRecipe(kubernetes)
	return err
}

// component is something compiled from one Go module.
type component struct {
	name    string   // also the recipe's directory
	version string   // and the directory of its lock files
	module  string   // empty: the programs are ours
	targets []target // what to build
	tags    string
	ldflags string
	derive  *catalogue.Derivation
	// definitions are patterns of files with definitions of custom resources: see catalogue.Set. Together they are the file definitions/NAME.yaml.
	definitions []string
}

// target is one program. name is the name of its compiled file.
type target struct{ name, pkg string }

const strip = "-s -w"

// components returns what must be compiled for a release, the longest compilation first.
func (r recipe) components() []component {
	return []component{
		r.kubernetes(),
		{name: "containerd", version: r.Containerd, module: "github.com/containerd/containerd/v2", tags: "no_btrfs,no_devmapper,no_zfs",
			ldflags: strip + " -X github.com/containerd/containerd/v2/version.Version=" + r.Containerd,
			targets: inModule("github.com/containerd/containerd/v2/cmd/", "containerd", "containerd-shim-runc-v2", "ctr")},
		{name: "etcd", version: r.Etcd, module: "go.etcd.io/etcd/server/v3", ldflags: strip, targets: []target{
			{"etcd", "go.etcd.io/etcd/server/v3"}, {"etcdctl", "go.etcd.io/etcd/etcdctl/v3"}, {"etcdutl", "go.etcd.io/etcd/etcdutl/v3"}}},
		{name: "coredns", version: r.CoreDNS, module: "github.com/coredns/coredns", ldflags: strip, targets: []target{{"coredns", "."}}},
		{name: "flannel", version: r.Flannel, module: "github.com/flannel-io/flannel",
			ldflags: strip + " -X github.com/flannel-io/flannel/pkg/version.Version=" + r.Flannel,
			// A cloud's SDK that the module proxy does not serve, and a backend that needs cgo.
			derive:  &catalogue.Derivation{File: "main.go", Drop: []string{"pkg/backend/tencentvpc", "pkg/backend/udp"}},
			targets: []target{{"flanneld", "."}}},
		r.cniPlugins(),
		r.tools(),
	}
}

func (r recipe) kubernetes() component {
	v, _ := release.Parse(r.Kubernetes) // a constant; TestRecipes checks it
	ld := strip
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range [][2]string{{"gitVersion", r.Kubernetes}, {"gitMajor", itoa(v[0])}, {"gitMinor", itoa(v[1])},
			{"gitTreeState", "clean"}, {"buildDate", "1970-01-01T00:00:00Z"}} {
			ld += " -X " + p + "." + kv[0] + "=" + kv[1]
		}
	}
	return component{name: "kubernetes", version: r.Kubernetes, module: "k8s.io/kubernetes", ldflags: ld,
		targets: inModule("k8s.io/kubernetes/cmd/", "kubeadm", "kubelet", "kubectl",
			"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")}
}

func (r recipe) cniPlugins() component {
	const base = "github.com/containernetworking/plugins/"
	return component{name: "cni-plugins", version: r.CNI, module: "github.com/containernetworking/plugins",
		ldflags: strip + " -X " + base + "pkg/utils/buildversion.BuildVersion=" + r.CNI,
		targets: []target{{"bridge", base + "plugins/main/bridge"}, {"host-local", base + "plugins/ipam/host-local"},
			{"loopback", base + "plugins/main/loopback"}, {"portmap", base + "plugins/meta/portmap"}, {"ptp", base + "plugins/main/ptp"}}}
}

// toolsVersion is the version of our own programs in images' tags. Raise it when one of them changes.
const toolsVersion = "v2"

func (r recipe) tools() component {
	return component{name: "tools", version: toolsVersion, ldflags: strip,
		targets: []target{{"pause", "./pause"}, {"echo", "./echo"}, {"install-cni", "./install-cni"}, {"cni-flannel", "./cni-flannel"}}}
}

func inModule(prefix string, names ...string) []target {
	var out []target
	for _, n := range names {
		out = append(out, target{n, prefix + n})
	}
	return out
}

// source returns the component's origin for the manifest.
func (c component) source() string {
	if c.module == "" {
		return "naupegos"
	}
	return "module " + c.module + "@" + c.version
}

// files returns the recipe's files by their names in the build directory.
func (c component) files() (map[string][]byte, error) {
	root := path.Join("recipes", c.name)
	out := map[string][]byte{}
	err := fs.WalkDir(recipes, root, func(p string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, root+"/")
		if err != nil || d.IsDir() || strings.HasSuffix(rel, "_test.go") {
			return err
		}
		if lock, ok := strings.CutSuffix(rel, ".lock"); ok {
			if dir := path.Dir(lock); dir != "." && dir != c.version {
				return nil
			}
			rel = path.Base(lock)
		}
		out[strings.TrimSuffix(rel, ".txt")], err = recipes.ReadFile(p)
		return err
	})
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read recipe").At(c.name)
	}
	if out["go.mod"] == nil || out["go.sum"] == nil {
		return nil, fail.New(fail.Internal, "recipe %s has no lock files for %s", c.name, c.version)
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// FlannelConflist returns the content of /etc/cni/net.d/10-flannel.conflist, which the flannel image installs if it is missing.
func FlannelConflist() []byte {
	data, err := recipes.ReadFile("recipes/tools/install-cni/10-flannel.conflist")
	if err != nil {
		panic("bundle: the embedded conflist is missing: " + err.Error()) // impossible in a program that compiled
	}
	return data
}
