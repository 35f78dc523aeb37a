package validation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// Limits of Nova, which are the narrowest of the services': tags, and metadata beside Naupegos' own.
const (
	maxTag      = 60
	maxMetadata = 50
	maxValue    = 255
)

// metadataKey matches keys that Nova accepts.
var metadataKey = regexp.MustCompile(`^[A-Za-z0-9 _.:-]{1,255}$`)

// checkSite checks what a site adds to a cluster: tags, metadata, classes of load balancers, and ports and volumes of machines.
func checkSite(c *v1alpha1.Cluster, r *findings, os *v1alpha1.OpenStack) {
	checkCloudTags(r, openStackField+".tags", os.Tags)
	checkMetadata(r, openStackField+".metadata", os.Metadata)
	checkBalancerClasses(r, openStackField+".loadBalancerClasses", os.LoadBalancerClasses)
	checkPorts(r, openStackField+".machine", os.Machine)
	checkVolumes(r, openStackField+".machine.volumes", os.Machine.Volumes)
	for _, s := range shapes(c) {
		checkPorts(r, s.path, s.own)
		checkVolumes(r, s.path+".volumes", s.own.Volumes)
		checkUnfiltered(r, s.path, s.own, s.own.Over(os.Machine))
	}
	checkUnfiltered(r, openStackField+".machine", os.Machine, os.Machine)
	if g := c.Spec.Endpoint.Gateways; g != nil && len(g.Machine.Networks) > 0 {
		r.Add("spec.endpoint.gateways.machine.networks", "is given, but gateways have one interface", "remove it")
	}
}

// checkUnfiltered refuses security groups for ports without port security. Those that a pool inherits do not matter to it.
func checkUnfiltered(r *findings, path string, own, whole v1alpha1.MachineShape) {
	if whole.Unfiltered() && len(own.SecurityGroups) > 0 {
		r.Add(path+".securityGroups", "is given, but portSecurity is false, and such ports take no security groups", "remove one of them", path+".portSecurity", openStackField+".machine.portSecurity")
	}
}

// checkCloudTags checks tags against the rules of every service that gets them.
func checkCloudTags(r *findings, field string, tags []string) {
	for i, t := range tags {
		at := strict.Item(field, i)
		switch {
		case t == "" || t != strings.TrimSpace(t):
			r.Add(at, strict.Quote(t)+" is empty, or begins or ends with blanks", "give a word, as team=storage")
		case len(t) > maxTag:
			r.Add(at, fmt.Sprintf("is longer than %d characters, Nova's limit", maxTag), "")
		case strings.ContainsAny(t, ",/"):
			r.Add(at, strict.Quote(t)+" has a comma or slash, which Nova refuses in tags", "write it without")
		case strings.HasPrefix(t, "naupegos-"):
			r.Add(at, strict.Quote(t)+" begins with naupegos-, as Naupegos' own tags do", "choose another one")
		case slices.Index(tags, t) < i:
			r.Add(at, strict.Quote(t)+" is in the list already", "name each tag once")
		default:
			checkCloudName(r, at, t)
		}
	}
}

func checkMetadata(r *findings, field string, all map[string]string) {
	if len(all) > maxMetadata {
		r.Add(field, fmt.Sprintf("has %d entries, at most %d are possible", len(all), maxMetadata), "")
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at := field + "[" + strict.Clip(key) + "]"
		switch {
		case !metadataKey.MatchString(key):
			r.Add(at, strict.Quote(key)+" is not a key of metadata", "use letters, digits, blanks and _ . : -")
		case strings.HasPrefix(key, "naupegos_"):
			r.Add(at, strict.Quote(key)+" begins with naupegos_, as Naupegos' own metadata do", "choose another key")
		case len(all[key]) > maxValue:
			r.Add(at, fmt.Sprintf("has a value that is longer than %d characters", maxValue), "")
		}
	}
}

func checkBalancerClasses(r *findings, field string, all []v1alpha1.LoadBalancerClass) {
	seen := map[string]int{}
	for i, c := range all {
		at := strict.Item(field, i)
		if first, again := seen[c.Name]; again {
			r.Add(at+".name", fmt.Sprintf("%s is already the name of loadBalancerClasses[%d]", strict.Quote(c.Name), first), "name each class once")
		}
		seen[c.Name] = i
		for _, f := range []struct{ key, value string }{
			{"floatingNetwork", c.FloatingNetwork}, {"floatingSubnet", c.FloatingSubnet}, {"network", c.Network}, {"subnet", c.Subnet},
		} {
			checkCloudName(r, at+"."+f.key, f.value)
		}
		if c.FloatingSubnet != "" && len(c.FloatingSubnetTags) > 0 {
			r.Add(at+".floatingSubnetTags", "is given beside floatingSubnet", "keep one of them", at+".floatingSubnet")
		}
		for j, t := range c.FloatingSubnetTags {
			if tag := strict.Item(at+".floatingSubnetTags", j); t == "" || strings.Contains(t, ",") {
				r.Add(tag, strict.Quote(t)+" is empty or has a comma", "give a tag of subnets")
			} else {
				checkCloudName(r, tag, t)
			}
		}
		if c.FloatingNetwork == "" && c.FloatingSubnet == "" && len(c.FloatingSubnetTags) == 0 && c.Network == "" && c.Subnet == "" {
			r.Add(at, "says nothing about the load balancers of its class", "give a network or subnet, or remove the class")
		}
	}
}

// checkPorts checks the additional security groups and networks of machines.
func checkPorts(r *findings, path string, s v1alpha1.MachineShape) {
	for i, g := range s.SecurityGroups {
		at := strict.Item(path+".securityGroups", i)
		switch {
		case g == "":
			r.Add(at, "is empty", "give the name or ID of a security group")
		case slices.Index(s.SecurityGroups, g) < i:
			r.Add(at, strict.Quote(g)+" is in the list already", "name each security group once")
		default:
			checkCloudName(r, at, g)
		}
	}
	for i, n := range s.Networks {
		at := strict.Item(path+".networks", i)
		checkCloudName(r, at+".network", n.Network)
		checkCloudName(r, at+".subnet", n.Subnet)
		if slices.Index(s.Networks, n) < i {
			r.Add(at, "is in the list already", "name each network once")
		}
	}
}

func checkVolumes(r *findings, field string, all []v1alpha1.MachineVolume) {
	seen := map[string]int{}
	for i, v := range all {
		at := strict.Item(field, i)
		if first, again := seen[v.Name]; again {
			r.Add(at+".name", fmt.Sprintf("%s is already the name of volumes[%d]", strict.Quote(v.Name), first), "name each volume once")
		}
		seen[v.Name] = i
		checkCloudName(r, at+".type", v.Type)
	}
}
