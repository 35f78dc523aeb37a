package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Resource is something that a cloud counts and limits.
type Resource string

// Limited resources, named as in the clouds' own tools. Those of Cinder also exist for each volume type.
const (
	Servers        Resource = "servers"
	Cores          Resource = "cores"
	RAM            Resource = "RAM in MiB"
	ServerGroups   Resource = "server groups"
	GroupMembers   Resource = "members of a server group"
	Keypairs       Resource = "keypairs"
	Volumes        Resource = "volumes"
	Gigabytes      Resource = "gigabytes of volumes"
	VolumeSize     Resource = "gigabytes of one volume"
	Networks       Resource = "networks"
	Subnets        Resource = "subnets"
	Routers        Resource = "routers"
	Ports          Resource = "ports"
	FloatingIPs    Resource = "floating IPs"
	SecurityGroups Resource = "security groups"
	Rules          Resource = "security group rules"
	LoadBalancers  Resource = "load balancers"
	Listeners      Resource = "listeners"
	Pools          Resource = "pools"
	Members        Resource = "members of pools"
	Monitors       Resource = "health monitors"
)

// resourceOrder is the display order of resources.
var resourceOrder = []Resource{
	Servers, Cores, RAM, ServerGroups, GroupMembers, Keypairs, Volumes, Gigabytes, VolumeSize,
	Networks, Subnets, Routers, Ports, FloatingIPs, SecurityGroups, Rules,
	LoadBalancers, Listeners, Pools, Members, Monitors,
}

// OfType returns the resource counted for one volume type alone.
func (r Resource) OfType(volumeType string) Resource { return r + Resource(" of type "+volumeType) }

// Demand is the number of each resource that an apply would create; for a limit per item (see Most), the largest number needed.
type Demand map[Resource]int

// Allowance is the usage and limit of one quota. Limit -1 means unlimited.
type Allowance struct{ Used, Limit int }

// Allowances are a project's quotas. A missing resource has no readable quota.
type Allowances map[Resource]Allowance

// Shortage is a quota that a demand exceeds.
type Shortage struct {
	Resource
	needed int
	Allowance
}

// String formats it as "cores: 26 needed, 12 of 20 used: 18 too few".
func (s Shortage) String() string {
	return fmt.Sprintf("%s: %d needed, %d of %d used: %d too few", s.Resource, s.needed, s.Used, s.Limit, s.needed+s.Used-s.Limit)
}

// Shortages lists the quotas that d exceeds.
func (a Allowances) Shortages(d Demand) []Shortage {
	var out []Shortage
	for _, r := range d.resources() {
		q, known := a[r]
		if need := d[r]; known && need > 0 && q.Limit >= 0 && q.Used+need > q.Limit {
			out = append(out, Shortage{r, need, q})
		}
	}
	return out
}

// resources lists d's resources in the order of the constants, each followed by its volume types.
func (d Demand) resources() []Resource {
	var out []Resource
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

// Most raises d's count of r to n, for a limit per item instead of in total.
func (d Demand) Most(r Resource, n int) { d[r] = max(d[r], n) }

// Volume adds a volume, which counts against the quotas of all volumes and of those of its type.
func (d Demand) Volume(gib int, volumeType string) {
	d[Volumes]++
	d[Gigabytes] += gib
	d.Most(VolumeSize, gib)
	if volumeType != "" {
		d[Volumes.OfType(volumeType)]++
		d[Gigabytes.OfType(volumeType)] += gib
	}
}
