package bundle

const (
	metricsServerModule  = "sigs.k8s.io/metrics-server"
	metricsServerVersion = "v0.9.0"
)

// ImageMetricsServer is the image of AddonMetricsServer.
const ImageMetricsServer = "metrics-server"

func metricsServer() component {
	const stamp = "k8s.io/component-base/version."
	return component{name: AddonMetricsServer, version: metricsServerVersion, module: metricsServerModule,
		ldflags: strip + " -X " + stamp + "gitVersion=" + metricsServerVersion + " -X " + stamp + "gitTreeState=clean -X " + stamp + "buildDate=1970-01-01T00:00:00Z",
		targets: inModule(metricsServerModule+"/cmd/", ImageMetricsServer)}
}

func metricsServerImages(_ recipe, p programs, _ *debianParts) ([]imageSpec, error) {
	b := &imageBuilder{programs: p}
	const bin = "/usr/local/bin/"
	return []imageSpec{{Name: ImageMetricsServer, Tag: metricsServerVersion, Roles: []string{roleControlPlane, roleWorker}, Entry: []string{bin + ImageMetricsServer},
		User: nobody, Files: append(b.at(bin, ImageMetricsServer), accounts()...)}}, b.err
}
