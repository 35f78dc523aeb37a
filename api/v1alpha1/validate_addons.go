package v1alpha1

import (
	"fmt"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/nodedns"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
)

// checkAddons checks each addon and its settings.
func (c *Cluster) checkAddons(r *findings) {
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
			{"metricsServer", AddonMetricsServer, a.MetricsServer != nil}, {"localPath", AddonLocalPath, a.LocalPath != nil}, {"nodeExporter", AddonNodeExporter, a.NodeExporter != nil},
			{"metallb", AddonMetalLB, a.MetalLB != nil}, {"snapshotController", AddonSnapshots, a.SnapshotController != nil}, {"certManager", AddonCertManager, a.CertManager != nil},
			{"externalDNS", AddonExternalDNS, a.ExternalDNS != nil}, {"prometheus", AddonPrometheus, a.Prometheus != nil},
			{"descheduler", AddonDescheduler, a.Descheduler != nil},
			{"nodeProblemDetector", AddonNodeProblems, a.NodeProblemDetector != nil}, {"traefik", AddonTraefik, a.Traefik != nil},
			{"nodeLocalDNS", AddonNodeLocalDNS, a.NodeLocalDNS != nil}, {"opentelemetryCollector", AddonCollector, a.OpenTelemetryCollector != nil},
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
		if a.Name == AddonMetalLB {
			c.checkMetalLB(r, field, a.MetalLB)
		}
		if a.Name == AddonExternalDNS {
			checkExternalDNS(r, field, a.ExternalDNS)
		}
		if t := a.Traefik; t != nil && a.Name == AddonTraefik {
			t.check(r, c, field+".traefik")
		}
		if m := a.CertManager; m != nil {
			m.Check(r, field+".certManager")
		}
		if p := a.Prometheus; p != nil {
			p.Check(r, field+".prometheus", checkWebAddress)
		}
		if n := a.NodeProblemDetector; n != nil {
			r.Choices(field+".nodeProblemDetector.monitors", "a monitor", n.Monitors, NodeMonitors)
		}
		if d := a.Descheduler; d != nil {
			d.Check(r, field+".descheduler")
		}
		if a.Name == AddonCollector {
			a.OpenTelemetryCollector.Check(r, field, telemetry.Checks{Web: checkWebAddress, Authorities: checkAuthorities})
		}
		if n := a.NodeLocalDNS; n != nil && a.Name == AddonNodeLocalDNS {
			n.Check(r, field+".nodeLocalDNS")
			if c.Spec.Kubernetes.CNI == CNINone {
				r.Add(field+".name", "node-local-dns works with the pod network flannel alone: others may lead queries past it", "remove it", "spec.kubernetes.cni")
			}
		}
		if n := a.NodeExporter; n != nil {
			machinePorts(c).Claim(r, field+".nodeExporter.port", "tcp", n.Port, AddonNodeExporter, "take another, such as 9100")
		}
	}
}

// machinePorts returns the ports on which the machines' programs listen, including addons with fixed ports.
func machinePorts(c *Cluster) *ports.Set {
	s := ports.Machines()
	if c.Addon(AddonNodeLocalDNS) != nil {
		s.Hold("tcp", nodedns.MetricsPort, AddonNodeLocalDNS)
		s.Hold("tcp", 53, AddonNodeLocalDNS)
		s.Hold("udp", 53, AddonNodeLocalDNS)
	}
	return s
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
