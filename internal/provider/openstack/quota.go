package openstack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resource is something that a cloud counts and limits.
type resource string

// What is limited, as people and the clouds' own tools call it. Those of Cinder have siblings for each volume type.
const (
	resServers        resource = "servers"
	resCores          resource = "cores"
	resRAM            resource = "RAM in MiB"
	resServerGroups   resource = "server groups"
	resGroupMembers   resource = "members of a server group"
	resKeypairs       resource = "keypairs"
	resVolumes        resource = "volumes"
	resGigabytes      resource = "gigabytes of volumes"
	resVolumeSize     resource = "gigabytes of one volume"
	resNetworks       resource = "networks"
	resSubnets        resource = "subnets"
	resRouters        resource = "routers"
	resPorts          resource = "ports"
	resFloatingIPs    resource = "floating IPs"
	resSecurityGroups resource = "security groups"
	resRules          resource = "security group rules"
	resLoadBalancers  resource = "load balancers"
	resListeners      resource = "listeners"
	resPools          resource = "pools"
	resMembers        resource = "members of pools"
	resMonitors       resource = "health monitors"
)

// resourceOrder is how resources are listed.
var resourceOrder = []resource{
	resServers, resCores, resRAM, resServerGroups, resGroupMembers, resKeypairs, resVolumes, resGigabytes, resVolumeSize,
	resNetworks, resSubnets, resRouters, resPorts, resFloatingIPs, resSecurityGroups, resRules,
	resLoadBalancers, resListeners, resPools, resMembers, resMonitors,
}

// ofType is a resource counted for one volume type alone.
func (r resource) ofType(volumeType string) resource { return r + resource(" of type "+volumeType) }

// demand is how many of each resource an apply would make, of what does not exist yet.
type demand map[resource]int

// allowance is what one quota says. Limit -1: there is none.
type allowance struct{ used, limit int }

// allowances are a project's quotas. A resource that is not in it has no quota that could be read.
type allowances map[resource]allowance

// shortage is a quota that a demand does not fit into.
type shortage struct {
	resource
	needed int
	allowance
}

// String tells it as "cores: 26 needed, 12 of 20 used: 18 too few".
func (s shortage) String() string {
	return fmt.Sprintf("%s: %d needed, %d of %d used: %d too few", s.resource, s.needed, s.used, s.limit, s.needed+s.used-s.limit)
}

// shortages lists the quotas that d does not fit into.
func (a allowances) shortages(d demand) []shortage {
	var out []shortage
	for _, r := range d.resources() {
		q, known := a[r]
		if need := d[r]; known && need > 0 && q.limit >= 0 && q.used+need > q.limit {
			out = append(out, shortage{r, need, q})
		}
	}
	return out
}

// resources lists what d asks for: in the order of the constants, each followed by its volume types.
func (d demand) resources() []resource {
	var out []resource
	for _, r := range resourceOrder {
		if _, ok := d[r]; ok {
			out = append(out, r)
		}
		for _, s := range slices.Sorted(maps.Keys(d)) {
			if strings.HasPrefix(string(s), string(r)+" of type ") {
				out = append(out, s)
			}
		}
	}
	return out
}

// most raises d's count of r to n: for what is limited per thing and not in total.
func (d demand) most(r resource, n int) { d[r] = max(d[r], n) }

// volume adds a volume, which counts against the quotas of all volumes and of those of its type.
func (d demand) volume(gib int, volumeType string) {
	d[resVolumes]++
	d[resGigabytes] += gib
	d.most(resVolumeSize, gib)
	if volumeType != "" {
		d[resVolumes.ofType(volumeType)]++
		d[resGigabytes.ofType(volumeType)] += gib
	}
}
