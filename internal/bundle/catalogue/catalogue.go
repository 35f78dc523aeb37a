// Package catalogue lists the sets of addons that are compiled from modules and whose images hold one program each: the programs to compile, and
// their images. It knows neither the library of bundles nor the recipes' files.
package catalogue

import (
	"cmp"
	"path"
)

// The sets, by the names with which users request them in bundles.
const (
	MetricsServer = "metrics-server"          // the API metrics.k8s.io: kubectl top, autoscaling of pods
	NodeExporter  = "node-exporter"           // metrics of machines: Prometheus' exporter
	KubeState     = "kube-state-metrics"      // metrics of the API's objects
	MetalLB       = "metallb"                 // addresses for Services of type LoadBalancer
	Snapshots     = "snapshot-controller"     // VolumeSnapshots of CSI drivers
	ExternalDNS   = "external-dns"            // names of Services and Ingresses in DNS
	CertManager   = "cert-manager"            // certificates for workloads
	Prometheus    = "prometheus"              // metrics and alerts: Prometheus and Alertmanager
	Descheduler   = "descheduler"             // moves pods to better nodes
	NodeProblems  = "node-problem-detector"   // problems that kernels log, as conditions of nodes
	Traefik       = "traefik"                 // Ingresses and Gateways
	NodeLocalDNS  = "node-local-dns"          // a cache of DNS on each node
	Collector     = "opentelemetry-collector" // logs, metrics and events to other places
)

// The images that are not named like their set.
const (
	ImageCertManager           = "cert-manager-controller"
	ImageCertManagerWebhook    = "cert-manager-webhook"
	ImageCertManagerCAInjector = "cert-manager-cainjector"
	ImageCertManagerSolver     = "cert-manager-acmesolver" // cert-manager itself starts its pods
	ImageMetalLBController     = "metallb-controller"
	ImageMetalLBSpeaker        = "metallb-speaker"
	ImageAlertmanager          = "alertmanager"
)

// Set is a set of addons.
type Set struct {
	Name     string // also the directory of its recipe
	Module   string
	Version  string // of the module
	Revision string // of images with programs of our own, as "-1": increase it with each intended change of one of them
	Tags     string // of the build, separated by commas
	LDFlags  string // further flags of the linker
	Derive   *Derivation
	Programs []Program
	With     []Set // programs of further modules; their Name is only their recipe's
	// Definitions are patterns of files with definitions of custom resources, in the module, or in another module of the build: "MODULE:PATTERN".
	Definitions []string
}

// All returns the set and the sets in With.
func (s Set) All() []Set { return append([]Set{s}, s.With...) }

// Derivation makes a main program from a file of the module, at the same place in the recipe, by dropping some of its imports.
type Derivation struct {
	File string
	Drop []string
}

// Imports returns the imports to drop; none of nil.
func (d *Derivation) Imports() []string {
	if d == nil {
		return nil
	}
	return d.Drop
}

// Program is a program with its image. It runs as nobody.
type Program struct {
	Image       string
	Name        string // of its file; empty: as the image
	Package     string
	Root        bool              // it runs as root
	Authorities bool              // it verifies the certificates of public servers
	Links       map[string]string // symbolic links in the image, by their paths
	Dir         string            // the directory of its file in the image; empty: /usr/local/bin
}

// File returns the name of the program's file.
func (p Program) File() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Image
}

// Path returns the path of the program's file in the image.
func (p Program) Path() string { return path.Join("/", cmp.Or(p.Dir, "usr/local/bin"), p.File()) }

// Tag returns the tag of the set's images.
func (s Set) Tag() string { return s.Version + s.Revision }

// Sets returns all sets.
func Sets() []Set {
	return []Set{
		kubernetesSet(MetricsServer, "sigs.k8s.io/metrics-server", "v0.9.0", "/cmd/metrics-server"),
		prometheusSet(NodeExporter, "github.com/prometheus/node_exporter", "v1.12.1", "node_exporter"),
		prometheusSet(KubeState, "k8s.io/kube-state-metrics/v2", "v2.18.0", ""),
		metalLB(),
		snapshots(),
		certManager(),
		externalDNS(),
		prometheus(),
		descheduler(),
		nodeProblems(),
		traefik(),
		nodeLocalDNS(),
		collector(),
	}
}

// kubernetesSet returns a set of one program whose version is set as in Kubernetes' own programs.
func kubernetesSet(name, module, version, dir string) Set {
	const stamp = "k8s.io/component-base/version."
	return Set{Name: name, Module: module, Version: version, Programs: []Program{{Image: name, Package: module + dir}},
		LDFlags: " -X " + stamp + "gitVersion=" + version + " -X " + stamp + "gitTreeState=clean -X " + stamp + "buildDate=1970-01-01T00:00:00Z"}
}

// prometheusSet returns a set of one program whose version is set as in the programs of the Prometheus project.
func prometheusSet(name, module, version, program string) Set {
	return Set{Name: name, Module: module, Version: version, Programs: []Program{{Image: name, Name: program, Package: module}},
		LDFlags: " -X github.com/prometheus/common/version.Version=" + version[1:]}
}

func metalLB() Set {
	const module, version = "go.universe.tf/metallb", "v0.16.1"
	return Set{Name: MetalLB, Module: module, Version: version, LDFlags: " -X " + module + "/internal/version.version=" + version[1:],
		// Raw sockets: the manifest gives only this capability to the speaker.
		Programs:    []Program{{Image: ImageMetalLBController, Package: module + "/controller"}, {Image: ImageMetalLBSpeaker, Package: module + "/speaker", Root: true}},
		Definitions: []string{"config/crd/bases/*.yaml"}}
}

func snapshots() Set {
	const module, version = "github.com/kubernetes-csi/external-snapshotter/v8", "v8.7.0"
	return Set{Name: Snapshots, Module: module, Version: version, LDFlags: " -X main.version=" + version,
		Programs:    []Program{{Image: Snapshots, Package: module + "/cmd/snapshot-controller"}},
		Definitions: []string{"github.com/kubernetes-csi/external-snapshotter/client/v8:config/crd/*.storage.k8s.io_*.yaml"}}
}

// certManager returns cert-manager. The main programs are ours, because those of the project are in modules that no proxy serves.
func certManager() Set {
	const module, version = "github.com/cert-manager/cert-manager", "v1.20.3"
	return Set{Name: CertManager, Module: module, Version: version, Revision: "-1", LDFlags: " -X " + module + "/pkg/util.AppVersion=" + version,
		Programs: []Program{{Image: ImageCertManager, Package: "./controller", Authorities: true}, {Image: ImageCertManagerWebhook, Package: "./webhook"},
			{Image: ImageCertManagerCAInjector, Package: "./cainjector"}, {Image: ImageCertManagerSolver, Package: "./acmesolver"}},
		Definitions: []string{"deploy/crds/*_*.yaml"}}
}

// externalDNS returns external-dns for RFC 2136 and Designate, with a main program of ours: the project's imports clients of clouds that no proxy serves.
func externalDNS() Set {
	const module, version = "sigs.k8s.io/external-dns", "v0.22.0"
	return Set{Name: ExternalDNS, Module: module, Version: version, Revision: "-2", LDFlags: " -X " + module + "/pkg/apis/externaldns.Version=" + version,
		Programs: []Program{{Image: ExternalDNS, Package: ".", Authorities: true}}}
}

// prometheus returns Prometheus with only the discovery of Kubernetes' objects, files and HTTP, and Alertmanager. The modules contain neither's
// pages: Prometheus builds them in only with a tag; for Alertmanager, a file of ours replaces the package.
func prometheus() Set {
	s := prometheusSet(Prometheus, "github.com/prometheus/prometheus", "v0.313.5", "") // the module of v3.13.5
	s.Tags, s.LDFlags = "remove_all_sd,enable_kubernetes_sd", " -X github.com/prometheus/common/version.Version=3.13.5"
	s.Programs[0] = Program{Image: Prometheus, Package: s.Module + "/cmd/prometheus", Authorities: true}
	a := prometheusSet(ImageAlertmanager, "github.com/prometheus/alertmanager", "v0.33.1", "")
	a.Revision, a.Derive = "-1", &Derivation{"cmd/alertmanager/main.go", []string{"alertmanager/ui"}}
	a.Programs[0] = Program{Image: ImageAlertmanager, Package: "./cmd/alertmanager", Authorities: true}
	s.With = []Set{a}
	return s
}

// descheduler returns the descheduler. It finds its own minor version in a version with a date only, and warns in each log otherwise.
func descheduler() Set {
	const module, version = "sigs.k8s.io/descheduler", "v0.36.0"
	return Set{Name: Descheduler, Module: module, Version: version, LDFlags: " -X " + module + "/pkg/version.version=v19700101-" + version,
		Programs: []Program{{Image: Descheduler, Package: module + "/cmd/descheduler"}}}
}

// nodeProblems returns node-problem-detector without the parts that need C libraries, other programs or a cloud: it reads the kernel's log. The journal needs libsystemd.
func nodeProblems() Set {
	const module, version = "k8s.io/node-problem-detector", "v1.34.0"
	return Set{Name: NodeProblems, Module: module, Version: version, LDFlags: " -X " + module + "/pkg/version.version=" + version,
		Tags: "disable_custom_plugin_monitor,disable_stackdriver_exporter,disable_system_stats_monitor",
		// Only root may read /dev/kmsg where kernel.dmesg_restrict is set, as on Debian.
		Programs: []Program{{Image: NodeProblems, Package: module + "/cmd/nodeproblemdetector", Root: true}}}
}

// traefik returns Traefik without its ACME client: see the recipe's module lego. The definitions of the Gateway API have the version that Traefik knows.
func traefik() Set {
	const module, version = "github.com/traefik/traefik/v3", "v3.7.13"
	const stamp = " -X " + module + "/pkg/version."
	return Set{Name: Traefik, Module: module, Version: version, Revision: "-1", LDFlags: stamp + "Version=" + version[1:] + stamp + "Codename=naupegos" + stamp + "BuildDate=1970-01-01T00:00:00Z",
		Programs: []Program{{Image: Traefik, Package: module + "/cmd/traefik", Authorities: true}},
		// Omit the policy that guards the Gateway API's definitions: it would prevent the return to an older version of them.
		Definitions: []string{"sigs.k8s.io/gateway-api:config/crd/standard/gateway.networking.k8s.io_[a-u]*.yaml", "docs/content/reference/dynamic-configuration/traefik.io_*.yaml"}}
}

// nodeLocalDNS returns a cache built from CoreDNS' packages with our own main program and plugin, because no module proxy serves the project's.
func nodeLocalDNS() Set {
	return Set{Name: NodeLocalDNS, Module: "github.com/coredns/coredns", Version: "v1.14.6", Revision: "-1",
		// It changes routes and rules of the node: the manifest gives it that capability, and the one for port 53.
		Programs: []Program{{Image: NodeLocalDNS, Package: ".", Root: true}}}
}

// collector returns the OpenTelemetry collector with the components that the addon configures, some of them ours, because no module proxy serves the project's.
func collector() Set {
	const version = "v0.160.0"
	return Set{Name: Collector, Module: "go.opentelemetry.io/collector/otelcol", Version: version, Revision: "-1", LDFlags: " -X main.version=" + version[1:],
		// Only root may read the logs of pods. The manifest mounts the machine's /usr over that of the image, for journalctl.
		Programs: []Program{{Image: Collector, Package: ".", Root: true, Authorities: true, Dir: "/bin",
			Links: map[string]string{"/lib": "usr/lib", "/lib64": "usr/lib64"}}}}
}
