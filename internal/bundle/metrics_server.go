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
	return single(p, ImageMetricsServer, metricsServerVersion, ImageMetricsServer)
}
