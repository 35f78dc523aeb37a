package addon

import (
	"crypto/sha256"
	_ "embed" // for the manifests
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// The addons that documents may list.
const (
	NameMetricsServer    = v1alpha1.AddonMetricsServer
	NameLocalPath        = v1alpha1.AddonLocalPath
	NameNodeExporter     = v1alpha1.AddonNodeExporter
	NameKubeStateMetrics = v1alpha1.AddonKubeStateMetrics
)

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
)

// Site lists the addons of a document in the document's order, without their manifests.
func Site(doc *v1alpha1.Cluster) []Addon {
	var out []Addon
	for _, a := range doc.Spec.Addons {
		switch a.Name {
		case v1alpha1.AddonMetricsServer:
			out = append(out, Addon{Name: a.Name, Title: "metrics-server", Reason: "kubectl top and the autoscaling of pods read its metrics",
				Workloads: []Workload{{"Deployment", a.Name}}})
		case v1alpha1.AddonLocalPath:
			out = append(out, Addon{Name: a.Name, Title: "volumes in directories of nodes (local-path)", Reason: "it creates volumes for PersistentVolumeClaims",
				Workloads: []Workload{{"Deployment", localPathDeployment}}})
		case v1alpha1.AddonNodeExporter:
			out = append(out, Addon{Name: a.Name, Title: "metrics of the machines (node-exporter)", Reason: "Prometheus reads the figures of machines from it",
				Workloads: []Workload{{"DaemonSet", a.Name}}})
		case v1alpha1.AddonKubeStateMetrics:
			out = append(out, Addon{Name: a.Name, Title: "metrics of the API's objects (kube-state-metrics)", Reason: "Prometheus reads the state of workloads from it",
				Workloads: []Workload{{"Deployment", a.Name}}})
		}
	}
	return out
}

// SiteNames lists the names of all addons that documents may list.
func SiteNames() []string { return slices.Sorted(maps.Keys(renderers)) }

// renderers render the addons of documents by name.
var renderers = map[string]func(v1alpha1.Addon, bundle.Manifest) ([]byte, error){
	NameMetricsServer: metricsServer, NameLocalPath: localPath, NameNodeExporter: nodeExporter, NameKubeStateMetrics: kubeStateMetrics,
}

// RenderSite renders one addon of a document with the images of a bundle. It returns fail.NotFound if the bundle lacks an image.
func RenderSite(a v1alpha1.Addon, m bundle.Manifest) ([]byte, error) {
	f := renderers[a.Name]
	if f == nil {
		return nil, fail.New(fail.Internal, "no addon %q", a.Name)
	}
	return f(a, m)
}

func metricsServer(a v1alpha1.Addon, m bundle.Manifest) ([]byte, error) {
	ref, err := image(m, bundle.ImageMetricsServer, bundle.AddonMetricsServer)
	if err != nil {
		return nil, err
	}
	return render(a.Name, metricsServerManifest, map[string]any{"Image": ref, "Replicas": a.MetricsServer.Replicas, "Resolution": a.MetricsServer.Resolution.String()})
}

func localPath(a v1alpha1.Addon, m bundle.Manifest) ([]byte, error) {
	ref, err := image(m, bundle.ImageLocalPath, bundle.AddonLocalPath)
	if err != nil {
		return nil, err
	}
	l := a.LocalPath
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", ref, l.Path))
	return render(a.Name, localPathManifest, map[string]any{
		"Image": ref, "StorageClass": l.StorageClass, "Default": l.Default != nil && *l.Default, "ReclaimPolicy": l.ReclaimPolicy, "Path": l.Path,
		"Checksum": hex.EncodeToString(sum[:8]),
	})
}

func nodeExporter(a v1alpha1.Addon, m bundle.Manifest) ([]byte, error) {
	ref, err := image(m, bundle.ImageNodeExporter, bundle.AddonNodeExporter)
	if err != nil {
		return nil, err
	}
	return render(a.Name, nodeExporterManifest, map[string]any{"Image": ref, "Port": a.NodeExporter.Port})
}

func kubeStateMetrics(a v1alpha1.Addon, m bundle.Manifest) ([]byte, error) {
	ref, err := image(m, bundle.ImageKubeStateMetrics, bundle.AddonKubeState)
	if err != nil {
		return nil, err
	}
	return render(a.Name, kubeStateMetricsManifest, map[string]any{"Image": ref})
}
