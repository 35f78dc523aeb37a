package quota

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// nextPage returns the address of the next page from a list's links; empty if there is none.
func nextPage(links json.RawMessage) string {
	var all []gophercloud.Link
	if json.Unmarshal(links, &all) != nil {
		return ""
	}
	for _, l := range all {
		if l.Rel == "next" {
			return l.Href
		}
	}
	return ""
}

// Each reader below reads a project's quotas and usage from one service, in a fixed number of calls. In all answers -1 means unlimited.

// OfCompute reads Nova's: one call, and one for the user's keypairs, which Nova doesn't count.
func OfCompute(ctx context.Context, c *gophercloud.ServiceClient) (Allowances, error) {
	var limits struct {
		Limits struct {
			Absolute map[string]int `json:"absolute"`
		} `json:"limits"`
	}
	if err := cloud.Get(ctx, c, &limits, "limits"); err != nil {
		return nil, err
	}
	var keys struct {
		Keypairs []json.RawMessage `json:"keypairs"`
	}
	if err := cloud.Get(ctx, c, &keys, "os-keypairs"); err != nil {
		return nil, err
	}
	out := Allowances{}
	set := func(r Resource, used int, limit string) {
		if max, ok := limits.Limits.Absolute[limit]; ok {
			out[r] = Allowance{Used: used, Limit: max}
		}
	}
	used := func(key string) int { return limits.Limits.Absolute[key] }
	set(Servers, used("totalInstancesUsed"), "maxTotalInstances")
	set(Cores, used("totalCoresUsed"), "maxTotalCores")
	set(RAM, used("totalRAMUsed"), "maxTotalRAMSize")
	set(ServerGroups, used("totalServerGroupsUsed"), "maxServerGroups")
	set(GroupMembers, 0, "maxServerGroupMembers")
	set(Keypairs, len(keys.Keypairs), "maxTotalKeypairs")
	return out, nil
}

// OfVolumes reads Cinder's: one call.
func OfVolumes(ctx context.Context, c *gophercloud.ServiceClient, project string) (Allowances, error) {
	var answer struct {
		Set map[string]json.RawMessage `json:"quota_set"`
	}
	if err := cloud.Get(ctx, c, &answer, "os-quota-sets", project+"?usage=True"); err != nil {
		return nil, err
	}
	out := Allowances{}
	for key, raw := range answer.Set {
		var q struct {
			InUse    int `json:"in_use"`
			Reserved int `json:"reserved"`
			Limit    int `json:"limit"`
		}
		r, ok := volumeResource(key)
		if !ok || json.Unmarshal(raw, &q) != nil { // "id" is a text, not a quota
			continue
		}
		out[r] = Allowance{Used: q.InUse + q.Reserved, Limit: q.Limit}
	}
	return out, nil
}

// volumeResource translates Cinder's name of a quota, such as "gigabytes_ssd".
func volumeResource(key string) (Resource, bool) {
	for _, k := range []struct {
		key string
		res Resource
	}{{"volumes", Volumes}, {"gigabytes", Gigabytes}} {
		if key == k.key {
			return k.res, true
		}
		if t, ok := strings.CutPrefix(key, k.key+"_"); ok {
			return k.res.OfType(t), true
		}
	}
	return VolumeSize, key == "per_volume_gigabytes"
}

// OfNetwork reads Neutron's: one call.
func OfNetwork(ctx context.Context, c *gophercloud.ServiceClient, project string) (Allowances, error) {
	type detail struct {
		Used     int             `json:"used"`
		Limit    int             `json:"limit"`
		Reserved json.RawMessage `json:"reserved"` // a number; an empty list in some releases
	}
	var answer struct {
		Quota map[string]detail `json:"quota"`
	}
	if err := cloud.Get(ctx, c, &answer, "quotas", project, "details.json"); err != nil {
		return nil, err
	}
	out := Allowances{}
	for key, r := range map[string]Resource{
		"network": Networks, "subnet": Subnets, "router": Routers, "port": Ports, "floatingip": FloatingIPs,
		"security_group": SecurityGroups, "security_group_rule": Rules,
	} {
		if d, ok := answer.Quota[key]; ok {
			var reserved int
			if json.Unmarshal(d.Reserved, &reserved) != nil {
				reserved = 0
			}
			out[r] = Allowance{Used: d.Used + reserved, Limit: d.Limit}
		}
	}
	return out, nil
}

// OfBalancing reads Octavia's limits with one call, and counts usage, which Octavia does not report, from four lists.
func OfBalancing(ctx context.Context, c *gophercloud.ServiceClient, project string) (Allowances, error) {
	var answer struct {
		Quota map[string]*int `json:"quota"`
	}
	if err := cloud.Get(ctx, c, &answer, "lbaas", "quotas", project); err != nil {
		return nil, err
	}
	out := Allowances{}
	for _, k := range []struct {
		res  Resource
		list string
		keys []string // some releases know one, some both
	}{
		{LoadBalancers, "loadbalancers", []string{"loadbalancer", "load_balancer"}},
		{Listeners, "listeners", []string{"listener"}},
		{Pools, "pools", []string{"pool"}},
		{Monitors, "healthmonitors", []string{"healthmonitor", "health_monitor"}},
	} {
		used, members, err := countBalancing(ctx, c, k.list, project)
		if err != nil {
			return nil, err
		}
		for _, key := range k.keys {
			if limit := answer.Quota[key]; limit != nil {
				out[k.res] = Allowance{Used: used, Limit: *limit}
			}
		}
		if limit := answer.Quota["member"]; k.list == "pools" && limit != nil {
			out[Members] = Allowance{Used: members, Limit: *limit}
		}
	}
	return out, nil
}

// countBalancing counts what Octavia lists of a kind, and the members in it (of pools), page by page.
func countBalancing(ctx context.Context, c *gophercloud.ServiceClient, kind, project string) (n, members int, err error) {
	type item struct {
		Members []json.RawMessage `json:"members"`
	}
	for url := c.ServiceURL("lbaas", kind) + "?fields=id&fields=members&project_id=" + project; url != ""; {
		var page map[string]json.RawMessage
		if err := cloud.GetURL(ctx, c, &page, url); err != nil {
			return 0, 0, err
		}
		var items []item
		if err := json.Unmarshal(page[kind], &items); err != nil {
			return 0, 0, fail.Wrap(fail.Internal, err, "read the list of %s", kind)
		}
		for _, i := range items {
			members += len(i.Members)
		}
		n += len(items)
		url = nextPage(page[kind+"_links"])
	}
	return n, members, nil
}
