package addon

import (
	_ "embed" // for the manifests
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// The addons that documents may list.
const (
	NameMetricsServer    = v1alpha1.AddonMetricsServer
	NameLocalPath        = v1alpha1.AddonLocalPath
	NameNodeExporter     = v1alpha1.AddonNodeExporter
	NameKubeStateMetrics = v1alpha1.AddonKubeStateMetrics
	NameMetalLB          = v1alpha1.AddonMetalLB
	NameSnapshots        = v1alpha1.AddonSnapshots
	NameCertManager      = v1alpha1.AddonCertManager
	NameExternalDNS      = v1alpha1.AddonExternalDNS
	NamePrometheus       = v1alpha1.AddonPrometheus
	NameDescheduler      = v1alpha1.AddonDescheduler
	NameNodeProblems     = v1alpha1.AddonNodeProblems
	NameTraefik          = v1alpha1.AddonTraefik
	NameNodeLocalDNS     = v1alpha1.AddonNodeLocalDNS
	NameCollector        = v1alpha1.AddonCollector
)

// metalLBNamespace is the namespace of the addon metallb, whose controller reads and writes Secrets.
const metalLBNamespace = "metallb-system"

// SnapshotsNamespace is the namespace of the addon snapshot-controller, and SnapshotsLease the lease that its working pod holds there.
const (
	SnapshotsNamespace = "snapshot-controller"
	SnapshotsLease     = "snapshot-controller-leader"
)

// CertManagerNamespace is the namespace of the addon cert-manager.
const CertManagerNamespace = "cert-manager"

// OwnDefinitions are the definitions whose objects the addons' own programs write: nothing is lost with them.
var OwnDefinitions = []string{"configurationstates.metallb.io", "servicebgpstatuses.metallb.io", "servicel2statuses.metallb.io"}

// LocalPathProvisioner is the provisioner in the StorageClass and the PersistentVolumes of the addon local-path.
const LocalPathProvisioner = "rancher.io/local-path"

// localPathDeployment is the Deployment of the addon local-path, whose name differs from the addon's.
const localPathDeployment = "local-path-provisioner"

var (
	//go:embed manifests/metrics-server.yaml
	metricsServerManifest string
	//go:embed manifests/local-path.yaml
	localPathManifest string
	//go:embed manifests/node-exporter.yaml
	nodeExporterManifest string
	//go:embed manifests/kube-state-metrics.yaml
	kubeStateMetricsManifest string
	//go:embed manifests/metallb.yaml
	metalLBManifest string
	//go:embed manifests/snapshot-controller.yaml
	snapshotsManifest string
	//go:embed manifests/cert-manager.yaml
	certManagerManifest string
	//go:embed manifests/external-dns.yaml
	externalDNSManifest string
	//go:embed manifests/descheduler.yaml
	deschedulerManifest string
	//go:embed manifests/node-problem-detector.yaml
	nodeProblemsManifest string
	//go:embed manifests/traefik.yaml
	traefikManifest string
	//go:embed manifests/node-local-dns.yaml
	nodeLocalDNSManifest string
	//go:embed manifests/opentelemetry-collector.yaml
	collectorManifest string
)

// Site lists the addons of a document in the document's order, without their manifests.
func Site(doc *v1alpha1.Cluster) []Addon {
	var out []Addon
	for _, a := range doc.Spec.Addons {
		switch a.Name {
		case v1alpha1.AddonMetricsServer:
			out = append(out, Addon{Name: a.Name, Title: "metrics-server", Reason: "kubectl top and the autoscaling of pods read its metrics",
				Workloads: []Workload{{Kind: "Deployment", Name: a.Name}}})
		case v1alpha1.AddonLocalPath:
			out = append(out, Addon{Name: a.Name, Title: "volumes in directories of nodes (local-path)", Reason: "it creates volumes for PersistentVolumeClaims",
				Workloads: []Workload{{Kind: "Deployment", Name: localPathDeployment}}})
		case v1alpha1.AddonNodeExporter:
			out = append(out, Addon{Name: a.Name, Title: "metrics of the machines (node-exporter)", Reason: "Prometheus reads the figures of machines from it",
				Workloads: []Workload{{Kind: "DaemonSet", Name: a.Name}}})
		case v1alpha1.AddonMetalLB:
			out = append(out, Addon{Name: a.Name, Title: "addresses for Services (metallb)", Reason: "Services of type LoadBalancer get addresses from it",
				Workloads: []Workload{{"Deployment", "metallb-controller", metalLBNamespace}, {"DaemonSet", "metallb-speaker", metalLBNamespace}}})
		case v1alpha1.AddonSnapshots:
			out = append(out, Addon{Name: a.Name, Title: "snapshots of volumes (snapshot-controller)", Reason: "VolumeSnapshots get their content from it",
				Workloads: []Workload{{"Deployment", a.Name, SnapshotsNamespace}}})
		case v1alpha1.AddonCertManager:
			out = append(out, Addon{Name: a.Name, Title: "certificates for workloads (cert-manager)", Reason: "Issuers and Ingresses get certificates from it",
				Workloads: []Workload{{"Deployment", "cert-manager", CertManagerNamespace}, {"Deployment", "cert-manager-webhook", CertManagerNamespace}, {"Deployment", "cert-manager-cainjector", CertManagerNamespace}}})
		case v1alpha1.AddonExternalDNS:
			out = append(out, externalDNSAddon(a))
		case v1alpha1.AddonPrometheus:
			p := Addon{Name: a.Name, Title: "metrics and alerts (prometheus)", Reason: "it collects the metrics of the cluster, and sends alerts"}
			for _, l := range letters(a.Prometheus) {
				p.Workloads = append(p.Workloads, Workload{"StatefulSet", PrometheusApp + "-" + l, PrometheusNamespace}, Workload{"StatefulSet", AlertmanagerApp + "-" + l, PrometheusNamespace})
			}
			out = append(out, p)
		case v1alpha1.AddonDescheduler:
			out = append(out, Addon{Name: a.Name, Title: "moves of pods to better nodes (descheduler)", Reason: "it evicts pods that would run better on other nodes",
				Workloads: []Workload{{"Deployment", a.Name, DeschedulerNamespace}}})
		case v1alpha1.AddonNodeProblems:
			out = append(out, Addon{Name: a.Name, Title: "problems of machines as conditions of nodes (node-problem-detector)", Reason: "it reports what the machines' kernels log",
				Workloads: []Workload{{Kind: "DaemonSet", Name: a.Name}}})
		case v1alpha1.AddonTraefik:
			kind := map[bool]string{true: "DaemonSet", false: "Deployment"}
			out = append(out, Addon{Name: a.Name, Title: "Ingresses and Gateways (traefik)", Reason: "it passes clients' requests on to pods",
				Workloads: []Workload{{kind[a.Traefik.Expose == v1alpha1.ExposeHostPort], a.Name, TraefikNamespace}}})
		case v1alpha1.AddonNodeLocalDNS:
			out = append(out, Addon{Name: a.Name, Title: "a cache of DNS on each node (node-local-dns)", Reason: "it answers the queries of the node's pods",
				Workloads: []Workload{{Kind: "DaemonSet", Name: a.Name}}})
		case v1alpha1.AddonCollector:
			out = append(out, collectorAddon(a))
		case v1alpha1.AddonKubeStateMetrics:
			out = append(out, Addon{Name: a.Name, Title: "metrics of the API's objects (kube-state-metrics)", Reason: "Prometheus reads the state of workloads from it",
				Workloads: []Workload{{Kind: "Deployment", Name: a.Name}}})
		}
	}
	return out
}

// collectorAddon describes the addon opentelemetry-collector.
func collectorAddon(a v1alpha1.Addon) Addon {
	c := a.OpenTelemetryCollector
	out := Addon{Name: a.Name, Title: "logs, metrics and events for other places (opentelemetry-collector)", Reason: collectorReason(c)}
	for _, what := range c.Collect {
		w := Workload{"DaemonSet", CollectorNode, CollectorNamespace}
		if what == telemetry.Events {
			w = Workload{"Deployment", CollectorEvents, CollectorNamespace}
		}
		if !slices.Contains(out.Workloads, w) {
			out.Workloads = append(out.Workloads, w)
		}
	}
	return out
}

// SiteNames lists the names of all addons that documents may list.
func SiteNames() []string { return slices.Sorted(maps.Keys(renderers)) }

// Input is what the manifests of a document's addons are made from.
type Input struct {
	Doc    *v1alpha1.Cluster
	Bundle bundle.Manifest
	// Definitions returns the definitions of custom resources of a set of addons in the bundle.
	Definitions func(set string) ([]byte, error)
	// UpdateKey returns the TSIG key for a name server, with the secret in base64.
	UpdateKey func(v1alpha1.RFC2136) (name, secret string, err error)
	// CloudLogin returns the cluster's own access to its cloud; nil before that exists.
	CloudLogin func() (*CloudLogin, error)
}

// renderers render the addons of documents by name.
var renderers = map[string]func(Input, v1alpha1.Addon) ([]byte, error){
	NameMetricsServer: metricsServer, NameLocalPath: localPath, NameNodeExporter: nodeExporter, NameKubeStateMetrics: kubeStateMetrics, NameMetalLB: metalLB,
	NameSnapshots: snapshots, NameCertManager: certManager, NameExternalDNS: externalDNS, NamePrometheus: prometheus,
	NameDescheduler: descheduler, NameNodeProblems: nodeProblems, NameTraefik: traefik, NameNodeLocalDNS: nodeLocalDNS,
	NameCollector: collector,
}

// RenderSite renders one addon of a document with the images of a bundle. It returns fail.NotFound if the bundle lacks an image.
func RenderSite(in Input, a v1alpha1.Addon) ([]byte, error) {
	f := renderers[a.Name]
	if f == nil {
		return nil, fail.New(fail.Internal, "no addon %q", a.Name)
	}
	return f(in, a)
}

func metricsServer(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.MetricsServer, a.Name)
	if err != nil {
		return nil, err
	}
	return render(a.Name, metricsServerManifest, map[string]any{"Image": ref, "Replicas": a.MetricsServer.Replicas, "Resolution": a.MetricsServer.Resolution.String()})
}

func localPath(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, bundle.ImageLocalPath, a.Name)
	if err != nil {
		return nil, err
	}
	l := a.LocalPath
	return render(a.Name, localPathManifest, map[string]any{
		"Image": ref, "StorageClass": l.StorageClass, "Default": l.Default != nil && *l.Default, "ReclaimPolicy": l.ReclaimPolicy, "Path": l.Path,
		"Checksum": checksum(fmt.Appendf(nil, "%s\n%s", ref, l.Path)),
	})
}

func nodeExporter(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.NodeExporter, a.Name)
	if err != nil {
		return nil, err
	}
	return render(a.Name, nodeExporterManifest, map[string]any{"Image": ref, "Port": a.NodeExporter.Port})
}

func kubeStateMetrics(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.KubeState, a.Name)
	if err != nil {
		return nil, err
	}
	return render(a.Name, kubeStateMetricsManifest, map[string]any{"Image": ref})
}

func metalLB(in Input, a v1alpha1.Addon) ([]byte, error) {
	controller, err := image(in.Bundle, catalogue.ImageMetalLBController, a.Name)
	if err != nil {
		return nil, err
	}
	speaker, err := image(in.Bundle, catalogue.ImageMetalLBSpeaker, a.Name)
	if err != nil {
		return nil, err
	}
	return withDefinitions(in, a.Name, metalLBManifest, map[string]any{
		"Controller": controller, "Speaker": speaker, "Pools": a.MetalLB.Pools, "Peers": a.MetalLB.Peers,
		"ControlPlane": in.Doc.WorkerCount() == 0 || in.Doc.Spec.ControlPlane.Schedulable,
	})
}

func snapshots(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.Snapshots, a.Name)
	if err != nil {
		return nil, err
	}
	return withDefinitions(in, a.Name, snapshotsManifest, map[string]any{"Image": ref, "Replicas": a.SnapshotController.Replicas})
}

// withDefinitions renders a manifest after the definitions of the addon's custom resources.
func withDefinitions(in Input, name, text string, data map[string]any) ([]byte, error) {
	definitions, err := in.Definitions(name)
	if err != nil {
		return nil, err
	}
	out, err := render(name, text, data)
	return slices.Concat(definitions, []byte("---\n"), out), err
}
