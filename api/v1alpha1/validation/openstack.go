package validation

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

const openStackField = "spec.provider.openstack"

// Limits of the machines' network in OpenStack. In addition to machines, it contains ports of the router, DHCP and load balancers.
const (
	minOpenStackBits, maxOpenStackBits     = 16, 28
	openStackReserved                  int = 6
)

// shapeAt is the shape of a group of machines and its path in the document.
type shapeAt struct {
	path  string // "spec.controlPlane.machine"
	what  string // "control-plane machines"
	count int    // of machines
	own   v1alpha1.MachineShape
}

// shapes lists the groups of machines with their own, not inherited, shapes.
func shapes(c *v1alpha1.Cluster) []shapeAt {
	all := []shapeAt{{"spec.controlPlane.machine", "control-plane machines", c.Spec.ControlPlane.Replicas, c.Spec.ControlPlane.Machine}}
	if g := c.Spec.Endpoint.Gateways; g != nil {
		all = append(all, shapeAt{"spec.endpoint.gateways.machine", "gateways", g.Replicas, g.Machine})
	}
	for i, p := range c.Spec.Workers {
		all = append(all, shapeAt{strict.Item("spec.workers", i) + ".machine", "pool " + strict.Clip(p.Name), p.Most(), p.Machine})
	}
	return all
}

// checkCloud checks the fields of provider openstack: with it, that all required fields are set; with another provider, that none is set that would
// have no effect.
func checkCloud(c *v1alpha1.Cluster, r *findings) {
	if os := c.Spec.Provider.OpenStack; os != nil {
		checkOpenStack(c, r, os)
	} else {
		checkNoCloud(c, r)
	}
}

// checkNoCloud requires that no field is set that only provider openstack uses.
func checkNoCloud(c *v1alpha1.Cluster, r *findings) {
	only := func(given bool, field string) {
		if given {
			r.Add(field, "belongs to provider openstack, but the provider is another", "remove it", "spec.provider")
		}
	}
	for _, s := range shapes(c) {
		only(!emptyShape(s.own), s.path)
	}
	a := c.Spec.Access
	only(len(a.SSHCIDRs) > 0, "spec.access.sshCIDRs")
	only(len(a.APICIDRs) > 0, "spec.access.apiCIDRs")
	only(len(a.NodePortCIDRs) > 0, "spec.access.nodePortCIDRs")
}

// emptyShape reports whether no field is set.
func emptyShape(s v1alpha1.MachineShape) bool {
	return s.Flavor == "" && s.Image == "" && s.RootVolumeGiB == nil && s.RootVolumeType == "" && len(s.Zones) == 0 &&
		s.AntiAffinity == "" && s.FloatingIP == nil && s.UserData == "" && s.ConfigDrive == nil &&
		s.SecurityGroups == nil && s.PortSecurity == nil && s.Networks == nil && s.Volumes == nil
}

// checkOpenStack checks the provider's own fields, the machines' shapes, and the networks with access.
func checkOpenStack(c *v1alpha1.Cluster, r *findings, os *v1alpha1.OpenStack) {
	for _, f := range []struct{ key, value string }{
		{"cloud", os.Cloud}, {"region", os.Region}, {"externalNetwork", os.ExternalNetwork}, {"floatingSubnet", os.FloatingSubnet},
		{"network.existing", os.Network.Existing}, {"network.subnet", os.Network.Subnet}, {"network.router", os.Network.Router},
	} {
		checkCloudName(r, openStackField+"."+f.key, f.value)
	}
	checkShape(r, openStackField+".machine", os.Machine)
	for _, s := range shapes(c) {
		checkShape(r, s.path, s.own)
	}
	checkShapesComplete(c, r, os)
	checkOpenStackNetwork(r, os.Network)
	checkSite(c, r, os)
	checkCloudDNS(c, r, os.DNS)
	if g := c.Spec.Endpoint.Gateways; g != nil && g.Machine.FloatingIP != nil && !*g.Machine.FloatingIP {
		r.Add("spec.endpoint.gateways.machine.floatingIP", "is false, but gateways always have a floating IP", "leave it out")
	}
	a := c.Spec.Access
	if len(a.APICIDRs) > 0 && c.Spec.Endpoint.Kind == v1alpha1.EndpointOctavia {
		r.Add("spec.access.apiCIDRs", "has no effect with endpoint kind octavia", "move it to spec.endpoint.octavia.allowedCIDRs", "spec.endpoint.kind")
	}
	checkCIDRList(r, "spec.access.sshCIDRs", a.SSHCIDRs)
	checkCIDRList(r, "spec.access.apiCIDRs", a.APICIDRs)
	checkCIDRList(r, "spec.access.nodePortCIDRs", a.NodePortCIDRs)
}

// checkShape checks a shape by itself.
func checkShape(r *findings, path string, s v1alpha1.MachineShape) {
	checkCloudName(r, path+".flavor", s.Flavor)
	checkCloudName(r, path+".image", s.Image)
	checkCloudName(r, path+".rootVolumeType", s.RootVolumeType)
	seen := map[string]int{}
	for i, z := range s.Zones {
		field := strict.Item(path+".zones", i)
		first, again := seen[z]
		switch {
		case z == "":
			r.Add(field, "is empty", "give the name of an availability zone")
		case again:
			r.Add(field, fmt.Sprintf("%s is already zones[%d]", strict.Quote(z), first), "name each zone once")
		default:
			checkCloudName(r, field, z)
		}
		seen[z] = i
	}
}

// checkShapesComplete requires a flavor and an image for every group that has machines. A field that is missing everywhere is one finding.
func checkShapesComplete(c *v1alpha1.Cluster, r *findings, os *v1alpha1.OpenStack) {
	for _, f := range []struct {
		key, tool string
		of        func(v1alpha1.MachineShape) string
	}{
		{"flavor", "openstack flavor list", func(s v1alpha1.MachineShape) string { return s.Flavor }},
		{"image", "openstack image list", func(s v1alpha1.MachineShape) string { return s.Image }},
	} {
		var lacking, having int
		for _, s := range shapes(c) {
			switch {
			case f.of(s.own.Over(os.Machine)) != "":
				having++
			case s.count > 0:
				lacking++
			}
		}
		all := openStackField + ".machine." + f.key
		if lacking > 0 && having == 0 {
			r.Add(all, "is required", fmt.Sprintf("give it here for all machines, or for each role and pool; %q shows what there is", f.tool))
		}
		for _, s := range shapes(c) {
			if s.count > 0 && f.of(s.own.Over(os.Machine)) == "" {
				r.Add(s.path+"."+f.key, "is required: there is none for "+s.what, "give it here, or for all machines in "+all, all)
			}
		}
	}
	for _, s := range shapes(c) {
		if s.own.RootVolumeType != "" && s.own.Over(os.Machine).RootVolume() == 0 {
			r.Add(s.path+".rootVolumeType", "is given, but there is no root volume", "give its size as rootVolumeGiB, or remove the type", s.path+".rootVolumeGiB", openStackField+".machine.rootVolumeGiB")
		}
	}
	if m := os.Machine; m.RootVolumeType != "" && m.RootVolume() == 0 {
		used := false
		for _, s := range shapes(c) {
			used = used || s.own.RootVolume() > 0
		}
		if !used {
			r.Add(openStackField+".machine.rootVolumeType", "is given, but there is no root volume", "give its size as rootVolumeGiB, or remove the type", openStackField+".machine.rootVolumeGiB")
		}
	}
}

// checkOpenStackNetwork checks the combination of fields, and the name servers.
func checkOpenStackNetwork(r *findings, n v1alpha1.OpenStackNetwork) {
	const path = openStackField + ".network"
	if n.Existing == "" {
		if n.Subnet != "" {
			r.Add(path+".subnet", "is given without existing", "name the network that the subnet belongs to as existing", path+".existing")
		}
	} else {
		for _, f := range []struct {
			key   string
			given bool
		}{{"cidr", n.CIDR != ""}, {"router", n.Router != ""}, {"dnsServers", len(n.DNSServers) > 0}} {
			if f.given {
				r.Add(path+"."+f.key, "is given, but an existing network is never changed: it has its own", "remove it, or leave existing out", path+".existing")
			}
		}
	}
	seen := map[string]int{}
	for i, s := range n.DNSServers {
		field := strict.Item(path+".dnsServers", i)
		if problem, hint := checkAddress(s); problem != "" {
			r.Add(field, problem, hint)
		} else if first, again := seen[s]; again {
			r.Add(field, fmt.Sprintf("%s is already dnsServers[%d]", s, first), "")
		}
		seen[s] = i
	}
}

// checkCloudName checks a name or ID in the cloud: any text except likely typing errors.
func checkCloudName(r *findings, field, s string) {
	switch {
	case s == "":
	case s != strings.TrimSpace(s):
		r.Add(field, strict.Quote(s)+" begins or ends with blanks", "remove them")
	case strings.ContainsFunc(s, unicode.IsControl):
		r.Add(field, strict.Quote(s)+" has control characters", "")
	case len(s) > 255:
		r.Add(field, "is longer than 255 characters", "")
	}
}

// checkCIDRList checks a list of networks with access.
func checkCIDRList(r *findings, field string, list []string) {
	seen := map[netip.Prefix]int{}
	for i, s := range list {
		at := strict.Item(field, i)
		p, problem, hint := v1alpha1.ParseNetwork(s)
		if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
			hint = "a single address is " + s + "/32"
		}
		if problem != "" {
			r.Add(at, problem, hint)
			continue
		}
		if first, again := seen[p]; again {
			r.Add(at, fmt.Sprintf("%s is already in the list, at [%d]", p, first), "keep one of them")
		}
		seen[p] = i
	}
}
