package v1alpha1

import (
	"cmp"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1/certificates"
	"github.com/naupegos/naupegos/api/v1alpha1/eviction"
	"github.com/naupegos/naupegos/api/v1alpha1/monitoring"
	"github.com/naupegos/naupegos/api/v1alpha1/nodedns"
	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
	"github.com/naupegos/naupegos/api/v1alpha1/volumes"
)

// Addon is a component that runs in the cluster for its users. Naupegos installs it with the cluster, waits until it works, upgrades it with the
// cluster, and removes it when it leaves the list.
type Addon struct {
	// Name of the addon: metrics-server provides the resource metrics of nodes and pods (kubectl top, autoscaling of pods); local-path provides volumes in a directory of the node that runs the pod; node-exporter serves the metrics of machines to Prometheus, and kube-state-metrics those of the API's objects; metallb gives Services of type LoadBalancer addresses in the machines' network; snapshot-controller turns VolumeSnapshots into snapshots of CSI drivers; cert-manager issues certificates to workloads, from authorities of your own or by ACME; external-dns publishes the names of Services and Ingresses at name servers that take dynamic updates; prometheus collects metrics of the cluster and its workloads, and Alertmanager sends alerts; descheduler evicts pods that would run better on other nodes; node-problem-detector reports what the kernels of the machines log as conditions and events of nodes; traefik passes requests on to pods, as Ingresses and Gateways of the Gateway API say; node-local-dns answers the DNS queries of each node's pods from a cache on the node; opentelemetry-collector sends logs, metrics and events to other places.
	Name string `json:"name" yaml:"name" jsonschema:"required,enum=metrics-server,enum=local-path,enum=node-exporter,enum=kube-state-metrics,enum=metallb,enum=snapshot-controller,enum=cert-manager,enum=external-dns,enum=prometheus,enum=descheduler,enum=node-problem-detector,enum=traefik,enum=node-local-dns,enum=opentelemetry-collector"`
	// Settings of the addon metrics-server.
	MetricsServer *monitoring.MetricsServer `json:"metricsServer,omitempty" yaml:"metricsServer,omitempty"`
	// Settings of the addon local-path.
	LocalPath *volumes.LocalPath `json:"localPath,omitempty" yaml:"localPath,omitempty"`
	// Settings of the addon node-exporter.
	NodeExporter *monitoring.NodeExporter `json:"nodeExporter,omitempty" yaml:"nodeExporter,omitempty"`
	// Settings of the addon metallb.
	MetalLB *MetalLB `json:"metallb,omitempty" yaml:"metallb,omitempty"`
	// Settings of the addon snapshot-controller.
	SnapshotController *volumes.SnapshotController `json:"snapshotController,omitempty" yaml:"snapshotController,omitempty"`
	// Settings of the addon cert-manager.
	CertManager *certificates.CertManager `json:"certManager,omitempty" yaml:"certManager,omitempty"`
	// Settings of the addon external-dns.
	ExternalDNS *ExternalDNS `json:"externalDNS,omitempty" yaml:"externalDNS,omitempty"`
	// Settings of the addon prometheus.
	Prometheus *monitoring.Prometheus `json:"prometheus,omitempty" yaml:"prometheus,omitempty"`
	// Settings of the addon descheduler.
	Descheduler *eviction.Descheduler `json:"descheduler,omitempty" yaml:"descheduler,omitempty"`
	// Settings of the addon node-problem-detector.
	NodeProblemDetector *NodeProblemDetector `json:"nodeProblemDetector,omitempty" yaml:"nodeProblemDetector,omitempty"`
	// Settings of the addon traefik.
	Traefik *Traefik `json:"traefik,omitempty" yaml:"traefik,omitempty"`
	// Settings of the addon node-local-dns.
	NodeLocalDNS *nodedns.NodeLocalDNS `json:"nodeLocalDNS,omitempty" yaml:"nodeLocalDNS,omitempty"`
	// Settings of the addon opentelemetry-collector.
	OpenTelemetryCollector *telemetry.OpenTelemetryCollector `json:"opentelemetryCollector,omitempty" yaml:"opentelemetryCollector,omitempty"`
}

// The addons.
const (
	AddonMetricsServer    = "metrics-server"
	AddonLocalPath        = "local-path"
	AddonNodeExporter     = "node-exporter"
	AddonKubeStateMetrics = "kube-state-metrics"
	AddonMetalLB          = "metallb"
	AddonSnapshots        = "snapshot-controller"
	AddonCertManager      = "cert-manager"
	AddonExternalDNS      = "external-dns"
	AddonPrometheus       = "prometheus"
	AddonDescheduler      = "descheduler"
	AddonNodeProblems     = "node-problem-detector"
	AddonTraefik          = "traefik"
	AddonNodeLocalDNS     = "node-local-dns"
	AddonCollector        = "opentelemetry-collector"
)

// MetalLB gives Services of type LoadBalancer addresses and announces them. Not with provider openstack, whose cloud has load balancers.
type MetalLB struct {
	// The addresses. A Service takes one of the first pool with a free address, or of the pool that its annotation metallb.io/address-pool names.
	Pools []AddressPool `json:"pools" yaml:"pools" jsonschema:"required,minItems=1,maxItems=20"`
	// Routers to which all machines announce the addresses of pools with advertise bgp.
	Peers []BGPPeer `json:"peers,omitempty" yaml:"peers,omitempty" jsonschema:"maxItems=20"`
}

// AddressPool is a pool of addresses for Services.
type AddressPool struct {
	// Name of the pool.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Free IPv4 addresses, as ranges (192.168.1.200-192.168.1.220) or networks (192.168.1.192/28).
	Addresses []string `json:"addresses" yaml:"addresses" jsonschema:"required,minItems=1,maxItems=50"`
	// How the machines make the addresses known: layer2 answers ARP in the machines' own network, bgp announces them to the peers.
	Advertise string `json:"advertise,omitempty" yaml:"advertise,omitempty" jsonschema:"default=layer2,enum=layer2,enum=bgp"`
	// Give addresses of this pool to Services that do not name it. Left out: true.
	AutoAssign *bool `json:"autoAssign,omitempty" yaml:"autoAssign,omitempty"`
}

// The ways to advertise addresses.
const (
	AdvertiseLayer2 = "layer2"
	AdvertiseBGP    = "bgp"
)

// BGPPeer is a router.
type BGPPeer struct {
	// IPv4 address of the router.
	Address string `json:"address" yaml:"address" jsonschema:"required" host:"none"`
	// Its TCP port.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=179,minimum=1,maximum=65535" host:"none"`
	// Number of the router's autonomous system.
	ASN int `json:"asn" yaml:"asn" jsonschema:"required,minimum=1,maximum=4294967295"`
	// Number of the machines' autonomous system.
	MyASN int `json:"myASN" yaml:"myASN" jsonschema:"required,minimum=1,maximum=4294967295"`
}

// NodeProblemDetector reads the kernel's log on each machine.
type NodeProblemDetector struct {
	// What it looks for: kernel (processes killed for lack of memory, tasks that hang, lockups, oopses), filesystem (errors, file systems that became read-only or shut down), hardware (errors of memory and other parts). Left out: all.
	Monitors []string `json:"monitors,omitempty" yaml:"monitors,omitempty" jsonschema:"maxItems=3"`
}

// NodeMonitors lists the monitors of node-problem-detector.
var NodeMonitors = []string{"kernel", "filesystem", "hardware"}

// Addon returns the addon of this name with defaults filled in, or nil if the document does not list it.
func (c *Cluster) Addon(name string) *Addon {
	for i := range c.Spec.Addons {
		if c.Spec.Addons[i].Name == name {
			return &c.Spec.Addons[i]
		}
	}
	return nil
}

// defaultAddons fills in default settings for each listed addon.
func (c *Cluster) defaultAddons() {
	for i := range c.Spec.Addons {
		switch a := &c.Spec.Addons[i]; a.Name {
		case AddonMetricsServer:
			some(&a.MetricsServer)
		case AddonSnapshots:
			some(&a.SnapshotController)
		case AddonCertManager:
			some(&a.CertManager)
		case AddonNodeProblems:
			if a.NodeProblemDetector == nil || len(a.NodeProblemDetector.Monitors) == 0 {
				a.NodeProblemDetector = &NodeProblemDetector{Monitors: slices.Clone(NodeMonitors)}
			}
		case AddonDescheduler:
			some(&a.Descheduler).Fill()
		case AddonExternalDNS:
			if e := a.ExternalDNS; e != nil {
				e.OwnerID = cmp.Or(e.OwnerID, c.Metadata.Name)
				if len(e.Sources) == 0 {
					e.Sources = []string{SourceService, SourceIngress}
				}
			}
		case AddonMetalLB:
			for i := range a.MetalLB.pools() {
				if p := &a.MetalLB.Pools[i]; p.AutoAssign == nil {
					yes := true
					p.AutoAssign = &yes
				}
			}
		case AddonPrometheus:
			some(&a.Prometheus)
		case AddonTraefik:
			some(&a.Traefik).fill(c)
		case AddonCollector:
			a.OpenTelemetryCollector.Fill()
		case AddonNodeLocalDNS:
			some(&a.NodeLocalDNS)
		case AddonNodeExporter:
			some(&a.NodeExporter)
		case AddonLocalPath:
			if l := some(&a.LocalPath); l.Default == nil {
				own := c.Spec.Provider.OpenStack == nil
				l.Default = &own
			}
		}
	}
}

// some returns settings, which it makes if there are none.
func some[T any](settings **T) *T {
	if *settings == nil {
		*settings = new(T)
	}
	return *settings
}

// pools returns the pools; none of nil.
func (m *MetalLB) pools() []AddressPool {
	if m == nil {
		return nil
	}
	return m.Pools
}

// AddonPorts lists the TCP ports of machines at which addons serve metrics to the cluster.
func AddonPorts(c *Cluster) (out []int) {
	if e := c.Addon(AddonNodeExporter); e != nil {
		out = append(out, e.NodeExporter.Port)
	}
	if c.Addon(AddonNodeLocalDNS) != nil {
		out = append(out, nodedns.MetricsPort)
	}
	return out
}
