package openstack

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// nextPage finds the address of the next page among a list's links; empty: there is none.
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

// The readers below ask one service each for a project's quotas and their use, in a fixed number of calls. In each answer -1 is no limit.

// computeAllowances reads Nova's: one call, and one for the user's keypairs, which Nova doesn't count.
func computeAllowances(ctx context.Context, c *gophercloud.ServiceClient) (allowances, error) {
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
	out := allowances{}
	set := func(r resource, used int, limit string) {
		if max, ok := limits.Limits.Absolute[limit]; ok {
			out[r] = allowance{used: used, limit: max}
		}
	}
	used := func(key string) int { return limits.Limits.Absolute[key] }
	set(resServers, used("totalInstancesUsed"), "maxTotalInstances")
	set(resCores, used("totalCoresUsed"), "maxTotalCores")
	set(resRAM, used("totalRAMUsed"), "maxTotalRAMSize")
	set(resServerGroups, used("totalServerGroupsUsed"), "maxServerGroups")
	set(resGroupMembers, 0, "maxServerGroupMembers")
	set(resKeypairs, len(keys.Keypairs), "maxTotalKeypairs")
	return out, nil
}

// volumeAllowances reads Cinder's: one call.
func volumeAllowances(ctx context.Context, c *gophercloud.ServiceClient, project string) (allowances, error) {
	var answer struct {
		Set map[string]json.RawMessage `json:"quota_set"`
	}
	if err := cloud.Get(ctx, c, &answer, "os-quota-sets", project+"?usage=True"); err != nil {
		return nil, err
	}
	out := allowances{}
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
		out[r] = allowance{used: q.InUse + q.Reserved, limit: q.Limit}
	}
	return out, nil
}

// volumeResource translates Cinder's name of a quota, such as "gigabytes_ssd".
func volumeResource(key string) (resource, bool) {
	for _, k := range []struct {
		key string
		res resource
	}{{"volumes", resVolumes}, {"gigabytes", resGigabytes}} {
		if key == k.key {
			return k.res, true
		}
		if t, ok := strings.CutPrefix(key, k.key+"_"); ok {
			return k.res.ofType(t), true
		}
	}
	return resVolumeSize, key == "per_volume_gigabytes"
}

// networkAllowances reads Neutron's: one call.
func networkAllowances(ctx context.Context, c *gophercloud.ServiceClient, project string) (allowances, error) {
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
	out := allowances{}
	for key, r := range map[string]resource{
		"network": resNetworks, "subnet": resSubnets, "router": resRouters, "port": resPorts, "floatingip": resFloatingIPs,
		"security_group": resSecurityGroups, "security_group_rule": resRules,
	} {
		if d, ok := answer.Quota[key]; ok {
			var reserved int
			if json.Unmarshal(d.Reserved, &reserved) != nil {
				reserved = 0
			}
			out[r] = allowance{used: d.Used + reserved, limit: d.Limit}
		}
	}
	return out, nil
}

// balancerAllowances reads Octavia's, which does not tell what is used: one call, and four lists.
func balancerAllowances(ctx context.Context, c *gophercloud.ServiceClient, project string) (allowances, error) {
	var answer struct {
		Quota map[string]*int `json:"quota"`
	}
	if err := cloud.Get(ctx, c, &answer, "lbaas", "quotas", project); err != nil {
		return nil, err
	}
	out := allowances{}
	for _, k := range []struct {
		res  resource
		list string
		keys []string // some releases know one, some both
	}{
		{resLoadBalancers, "loadbalancers", []string{"loadbalancer", "load_balancer"}},
		{resListeners, "listeners", []string{"listener"}},
		{resPools, "pools", []string{"pool"}},
		{resMonitors, "healthmonitors", []string{"healthmonitor", "health_monitor"}},
	} {
		used, members, err := countBalancing(ctx, c, k.list, project)
		if err != nil {
			return nil, err
		}
		for _, key := range k.keys {
			if limit := answer.Quota[key]; limit != nil {
				out[k.res] = allowance{used: used, limit: *limit}
			}
		}
		if limit := answer.Quota["member"]; k.list == "pools" && limit != nil {
			out[resMembers] = allowance{used: members, limit: *limit}
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
