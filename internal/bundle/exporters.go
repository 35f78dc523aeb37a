package bundle

const (
	nodeExporterModule  = "github.com/prometheus/node_exporter"
	nodeExporterVersion = "v1.12.1"
	kubeStateModule     = "k8s.io/kube-state-metrics/v2"
	kubeStateVersion    = "v2.18.0"
)

// The images of AddonNodeExporter and AddonKubeState.
const (
	ImageNodeExporter     = "node-exporter"
	ImageKubeStateMetrics = "kube-state-metrics"
)

func nodeExporter() component {
	return component{name: AddonNodeExporter, version: nodeExporterVersion, module: nodeExporterModule, ldflags: strip + versionStamp(nodeExporterVersion),
		targets: []target{{"node_exporter", nodeExporterModule}}}
}

func kubeStateMetrics() component {
	return component{name: AddonKubeState, version: kubeStateVersion, module: kubeStateModule, ldflags: strip + versionStamp(kubeStateVersion),
		targets: []target{{ImageKubeStateMetrics, kubeStateModule}}}
}

// versionStamp returns linker flags by which the programs of the Prometheus project know their version.
func versionStamp(version string) string {
	return " -X github.com/prometheus/common/version.Version=" + version[1:]
}

func nodeExporterImages(_ recipe, p programs, _ *debianParts) ([]imageSpec, error) {
	return single(p, ImageNodeExporter, nodeExporterVersion, "node_exporter")
}

func kubeStateMetricsImages(_ recipe, p programs, _ *debianParts) ([]imageSpec, error) {
	return single(p, ImageKubeStateMetrics, kubeStateVersion, ImageKubeStateMetrics)
}

// single returns an image for all machines with one program that runs as nobody.
func single(p programs, image, tag, program string) ([]imageSpec, error) {
	b := &imageBuilder{programs: p}
	const bin = "/usr/local/bin/"
	return []imageSpec{{Name: image, Tag: tag, Roles: []string{roleControlPlane, roleWorker}, Entry: []string{bin + program}, User: nobody,
		Files: append(b.at(bin, program), accounts()...)}}, b.err
}
