package validation

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

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
		checkSettings(r, field, a)
		if l := a.LocalPath; l != nil {
			l.Check(r, field+".localPath", c.Spec.Provider.OpenStack != nil)
		}
		if a.Name == v1alpha1.AddonMetalLB {
			checkMetalLB(c, r, field, a.MetalLB)
		}
		if a.Name == v1alpha1.AddonExternalDNS {
			checkExternalDNS(c, r, field, a.ExternalDNS)
		}
		if t := a.Traefik; t != nil && a.Name == v1alpha1.AddonTraefik {
			checkTraefik(t, r, c, field+".traefik")
		}
		if p := a.Prometheus; p != nil {
			p.Check(r, field+".prometheus", checkWebAddress)
		}
		if n := a.NodeProblemDetector; n != nil {
			r.Choices(field+".nodeProblemDetector.monitors", "a monitor", n.Monitors, v1alpha1.NodeMonitors)
		}
		if a.Name == v1alpha1.AddonCollector {
			a.OpenTelemetryCollector.Check(r, field, telemetry.Checks{Web: checkWebAddress, Authorities: checkAuthorities})
		}
		if a.Name == v1alpha1.AddonNodeLocalDNS && c.Spec.Kubernetes.CNI == v1alpha1.CNINone {
			r.Add(field+".name", "node-local-dns works with the pod network flannel alone: others may lead queries past it", "remove it", "spec.kubernetes.cni")
		}
		if n := a.NodeExporter; n != nil {
			machinePorts(c).Claim(r, field+".nodeExporter.port", "tcp", n.Port, v1alpha1.AddonNodeExporter, "take another, such as 9100")
		}
	}
}

// checkSettings requires that settings belong to the listed addon, and lets those check themselves that need nothing else of the document. The key of an addon's settings is
// its name without dashes, in any case.
func checkSettings(r *findings, field string, a v1alpha1.Addon) {
	v := reflect.ValueOf(a)
	for _, f := range strict.FieldsOf(v.Type()) {
		settings := v.Field(f.Index)
		if settings.Kind() != reflect.Pointer || settings.IsNil() {
			continue
		}
		at := field + "." + f.Key
		if !belongs(f.Key, a.Name) {
			r.Add(at, "belongs to addon "+ownerOf(f.Key), "remove it, or list that addon", field+".name")
			continue
		}
		if own, ok := settings.Interface().(interface {
			Check(r *strict.Findings, field string)
		}); ok {
			own.Check(r, at)
		}
	}
}

// belongs reports whether a key is that of the settings of an addon.
func belongs(key, addon string) bool {
	return strings.EqualFold(key, strings.ReplaceAll(addon, "-", ""))
}

// ownerOf returns the addon whose settings have this key; a test finds one for each key.
func ownerOf(key string) string {
	for _, f := range strict.FieldsOf(reflect.TypeFor[v1alpha1.Addon]()) {
		if i := slices.IndexFunc(f.Enum, func(name string) bool { return belongs(key, name) }); i >= 0 {
			return f.Enum[i]
		}
	}
	return ""
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
