package v1alpha1

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
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
		} {
			if s.given && s.of != a.Name {
				r.Add(field+"."+s.key, "belongs to addon "+s.of, "remove it, or list that addon", field+".name")
			}
		}
		if m := a.MetricsServer; m != nil {
			m.Check(r, field+".metricsServer")
		}
		if l := a.LocalPath; l != nil {
			c.checkLocalPath(r, field+".localPath", l)
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
			m.check(r, field+".certManager")
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
		if n := a.NodeExporter; n != nil {
			ports.Machines().Claim(r, field+".nodeExporter.port", "tcp", n.Port, AddonNodeExporter, "take another, such as 9100")
		}
	}
}

// systemDirectories must not contain volumes: pods would write into the machine's own files.
var systemDirectories = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr",
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/naupegos", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/systemd", "/var/log", "/var/run"}

func (c *Cluster) checkLocalPath(r *findings, field string, l *LocalPath) {
	switch p := l.Path; {
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\"\\\n\r\x00$"):
		r.Add(field+".path", strict.Quote(p)+" is not an absolute path without . and ..", "write it like /var/lib/local-path")
	case slices.Contains([]string{"/", "/var", "/var/lib", "/home", "/opt", "/srv", "/mnt", "/media"}, p):
		r.Add(field+".path", strict.Quote(p)+" holds other directories of the machine", "take one below it: "+path.Join(p, "local-path"))
	case slices.ContainsFunc(systemDirectories, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") }):
		r.Add(field+".path", strict.Quote(p)+" is a directory of the machine's own", "take another, such as /var/lib/local-path")
	}
	if c.Spec.Provider.OpenStack == nil {
		return
	}
	if l.StorageClass == classCinder {
		r.Add(field+".storageClass", strict.Quote(classCinder)+" is the class of the cloud's volumes", "take another name")
	}
	if l.Default != nil && *l.Default {
		r.Add(field+".default", "the cloud's volumes ("+classCinder+") are the default", "set it to false, or leave it out")
	}
}

// classCinder is the StorageClass of clusters on OpenStack.
const classCinder = "cinder"

// certManagerGates are the gates of cert-manager 1.20 that are not yet fixed and need nothing else.
var certManagerGates = []string{"ACMEHTTP01IngressPathTypeExact", "LiteralCertificateSubject", "NameConstraints", "OtherNames", "SecretsFilteredCaching",
	"ServerSideApply", "StableCertificateRequestName", "UseCertificateRequestBasicConstraints", "ValidateCAA"}

func (m *CertManager) check(r *findings, field string) {
	if len(validation.IsDNS1123Label(m.ClusterResourceNamespace)) > 0 {
		r.Add(field+".clusterResourceNamespace", strict.Quote(m.ClusterResourceNamespace)+" is not the name of a namespace", "write it in lower case, with digits and -")
	}
	for _, name := range slices.Sorted(maps.Keys(m.FeatureGates)) {
		if !slices.Contains(certManagerGates, name) {
			r.Add(field+".featureGates["+strict.Clip(name)+"]", strict.Quote(name)+" is not a feature gate of cert-manager that can be set", "use "+strings.Join(certManagerGates, ", "))
		}
	}
	if m.DNS01 == nil {
		return
	}
	for i, s := range m.DNS01.RecursiveNameservers {
		if a, err := netip.ParseAddrPort(s); err != nil || a.Port() == 0 {
			r.Add(strict.Item(field+".dns01.recursiveNameservers", i), strict.Quote(s)+" is not the address and port of a name server", "write it like 10.0.0.53:53")
		}
	}
}
