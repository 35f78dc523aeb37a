package validation

import (
	"fmt"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/nodedns"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
)

// checkAddons checks each addon and its settings.
func checkAddons(c *v1alpha1.Cluster, r *findings) {
	seen := map[string]int{}
	for i, a := range c.Spec.Addons {
		field := strict.Item("spec.addons", i)
		if first, again := seen[a.Name]; again {
			r.Add(field+".name", fmt.Sprintf("%s is already listed, at spec.addons[%d]", strict.Quote(a.Name), first), "keep one of them")
			continue
		}
		seen[a.Name] = i
		for _, s := range []struct {
			key, of string
			given   bool
		}{
			{"metricsServer", v1alpha1.AddonMetricsServer, a.MetricsServer != nil}, {"localPath", v1alpha1.AddonLocalPath, a.LocalPath != nil}, {"nodeExporter", v1alpha1.AddonNodeExporter, a.NodeExporter != nil},
			{"metallb", v1alpha1.AddonMetalLB, a.MetalLB != nil}, {"snapshotController", v1alpha1.AddonSnapshots, a.SnapshotController != nil}, {"certManager", v1alpha1.AddonCertManager, a.CertManager != nil},
			{"externalDNS", v1alpha1.AddonExternalDNS, a.ExternalDNS != nil}, {"prometheus", v1alpha1.AddonPrometheus, a.Prometheus != nil},
			{"descheduler", v1alpha1.AddonDescheduler, a.Descheduler != nil},
			{"nodeProblemDetector", v1alpha1.AddonNodeProblems, a.NodeProblemDetector != nil}, {"traefik", v1alpha1.AddonTraefik, a.Traefik != nil},
			{"nodeLocalDNS", v1alpha1.AddonNodeLocalDNS, a.NodeLocalDNS != nil}, {"opentelemetryCollector", v1alpha1.AddonCollector, a.OpenTelemetryCollector != nil},
		} {
			if s.given && s.of != a.Name {
				r.Add(field+"."+s.key, "belongs to addon "+s.of, "remove it, or list that addon", field+".name")
			}
		}
		if m := a.MetricsServer; m != nil {
			m.Check(r, field+".metricsServer")
		}
		if l := a.LocalPath; l != nil {
			l.Check(r, field+".localPath", c.Spec.Provider.OpenStack != nil)
		}
		if a.Name == v1alpha1.AddonMetalLB {
			checkMetalLB(c, r, field, a.MetalLB)
		}
		if a.Name == v1alpha1.AddonExternalDNS {
			checkExternalDNS(r, field, a.ExternalDNS)
		}
		if t := a.Traefik; t != nil && a.Name == v1alpha1.AddonTraefik {
			checkTraefik(t, r, c, field+".traefik")
		}
		if m := a.CertManager; m != nil {
			m.Check(r, field+".certManager")
		}
		if p := a.Prometheus; p != nil {
			p.Check(r, field+".prometheus", checkWebAddress)
		}
		if n := a.NodeProblemDetector; n != nil {
			r.Choices(field+".nodeProblemDetector.monitors", "a monitor", n.Monitors, v1alpha1.NodeMonitors)
		}
		if d := a.Descheduler; d != nil {
			d.Check(r, field+".descheduler")
		}
		if a.Name == v1alpha1.AddonCollector {
			a.OpenTelemetryCollector.Check(r, field, telemetry.Checks{Web: checkWebAddress, Authorities: checkAuthorities})
		}
		if n := a.NodeLocalDNS; n != nil && a.Name == v1alpha1.AddonNodeLocalDNS {
			n.Check(r, field+".nodeLocalDNS")
			if c.Spec.Kubernetes.CNI == v1alpha1.CNINone {
				r.Add(field+".name", "node-local-dns works with the pod network flannel alone: others may lead queries past it", "remove it", "spec.kubernetes.cni")
			}
		}
		if n := a.NodeExporter; n != nil {
			machinePorts(c).Claim(r, field+".nodeExporter.port", "tcp", n.Port, v1alpha1.AddonNodeExporter, "take another, such as 9100")
		}
	}
}

// machinePorts returns the ports on which the machines' programs listen, including addons with fixed ports.
func machinePorts(c *v1alpha1.Cluster) *ports.Set {
	s := ports.Machines()
	if c.Addon(v1alpha1.AddonNodeLocalDNS) != nil {
		s.Hold("tcp", nodedns.MetricsPort, v1alpha1.AddonNodeLocalDNS)
		s.Hold("tcp", 53, v1alpha1.AddonNodeLocalDNS)
		s.Hold("udp", 53, v1alpha1.AddonNodeLocalDNS)
	}
	return s
}
