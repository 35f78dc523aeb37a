package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// listing counts the objects of a project by description. A description contains everything in which two sides might differ except names and IDs,
// but including the roles in names.
type listing map[string]int

func (l listing) add(format string, args ...any) { l[fmt.Sprintf(format, args...)]++ }

// kinds counts the objects by the first word of their descriptions.
func (l listing) kinds() string {
	kinds := map[string]int{}
	for what, n := range l {
		kind, _, _ := strings.Cut(what, ":")
		kinds[kind] += n
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, fmt.Sprintf("%d %s", kinds[k], k))
	}
	return strings.Join(out, ", ")
}

// diff lists the descriptions in which two listings differ.
func (l listing) diff(nameL string, m listing, nameM string) []string {
	all := maps.Clone(l)
	maps.Copy(all, m)
	var out []string
	for _, what := range slices.Sorted(maps.Keys(all)) {
		if l[what] != m[what] {
			out = append(out, fmt.Sprintf("%s: %d by %s, %d by %s", what, l[what], nameL, m[what], nameM))
		}
	}
	return out
}

// contents is the raw content of a project, by kind.
type contents map[string][]object

// collections lists the collection of each kind. A project's token lists the project's own objects; if a collection returns others too, the query
// names the project.
var collections = []struct{ kind, service, version, path, key string }{
	{"network", "network", "v2.0", "/networks?project_id=%s", "networks"},
	{"subnet", "network", "v2.0", "/subnets?project_id=%s", "subnets"},
	{"router", "network", "v2.0", "/routers?project_id=%s", "routers"},
	{"port", "network", "v2.0", "/ports?project_id=%s", "ports"},
	{"floating IP", "network", "v2.0", "/floatingips?project_id=%s", "floatingips"},
	{"security group", "network", "v2.0", "/security-groups?project_id=%s", "security_groups"},
	{"server", "compute", "v2.1", "/servers/detail", "servers"},
	{"server group", "compute", "v2.1", "/os-server-groups", "server_groups"},
	{"keypair", "compute", "v2.1", "/os-keypairs", "keypairs"},
	{"volume", "block-storage", "v3", "/volumes/detail", "volumes"},
	{"load balancer", "load-balancer", "v2.0", "/lbaas/loadbalancers?project_id=%s", "loadbalancers"},
	{"listener", "load-balancer", "v2.0", "/lbaas/listeners?project_id=%s", "listeners"},
	{"pool", "load-balancer", "v2.0", "/lbaas/pools?project_id=%s", "pools"},
	{"monitor", "load-balancer", "v2.0", "/lbaas/healthmonitors?project_id=%s", "healthmonitors"},
}

// read lists everything in the session's project.
func (s *session) read(ctx context.Context) (contents, error) {
	out := contents{}
	found := make([][]object, len(collections))
	g, gctx := errgroup.WithContext(ctx)
	for i, c := range collections {
		path := c.path
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, s.project)
		}
		g.Go(func() (err error) {
			found[i], err = s.list(gctx, c.service, c.version, path, c.key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, c := range collections {
		out[c.kind] = found[i]
	}
	for _, p := range out["pool"] {
		members, err := s.list(ctx, "load-balancer", "v2.0", "/lbaas/pools/"+text(p, "id")+"/members", "members")
		if err != nil {
			return nil, err
		}
		out["member"] = append(out["member"], members...)
	}
	// Every project always has a group called default, and Octavia creates groups for its ports.
	out["security group"] = slices.DeleteFunc(out["security group"], func(g object) bool {
		return text(g, "name") == "default" || strings.HasPrefix(text(g, "name"), "lb-")
	})
	return out, nil
}

// describe turns contents into a listing.
func (c contents) describe() listing {
	l, groups := listing{}, map[string]string{}
	for _, g := range c["security group"] {
		groups[text(g, "id")] = role(text(g, "name"))
		l.add("security group: %s", role(text(g, "name")))
	}
	for _, r := range c.rules() {
		l.add("rule: %s", r)
	}
	for _, n := range c["network"] {
		l.add("network: up %s", text(n, "admin_state_up"))
	}
	for _, s := range c["subnet"] {
		l.add("subnet: %s DHCP %s", text(s, "cidr"), text(s, "enable_dhcp"))
	}
	for _, r := range c["router"] {
		l.add("router: leads out %t", text(r, "external_gateway_info", "network_id") != "")
	}
	for _, p := range c["port"] {
		l.describePort(p, groups)
	}
	for _, f := range c["floating IP"] {
		l.add("floating IP: in use %t", text(f, "port_id") != "")
	}
	c.describeMachines(l)
	c.describeBalancer(l)
	return l
}

func (l listing) describePort(p object, groups map[string]string) {
	owner, _, _ := strings.Cut(text(p, "device_owner"), ":")
	switch text(p, "device_owner") {
	case "network:router_interface", "network:dhcp":
		l.add("port: %s", text(p, "device_owner"))
		return
	}
	var of []string
	ids, _ := p["security_groups"].([]any)
	for _, id := range ids {
		if name, ok := groups[fmt.Sprint(id)]; ok {
			of = append(of, name)
		}
	}
	l.add("port: %s %v", owner, of)
}

func (c contents) describeMachines(l listing) {
	for _, s := range c["server"] {
		volumes, _ := s["os-extended-volumes:volumes_attached"].([]any)
		l.add("server: %s, %d volumes, keypair %t", text(s, "status"), len(volumes), text(s, "key_name") != "")
	}
	for _, g := range c["server group"] {
		members, _ := g["members"].([]any)
		policies, _ := g["policies"].([]any)
		l.add("server group: %v with %d members", policies, len(members))
	}
	for range c["keypair"] {
		l.add("keypair: of the cluster")
	}
	for _, v := range c["volume"] {
		l.add("volume: %s GiB %s, bootable %s", text(v, "size"), text(v, "status"), text(v, "bootable"))
	}
}

func (c contents) describeBalancer(l listing) {
	for _, b := range c["load balancer"] {
		l.add("load balancer: %s", text(b, "provisioning_status"))
	}
	for _, o := range c["listener"] {
		l.add("listener: %s %s, idle %s/%s ms, pool %t", text(o, "protocol"), text(o, "protocol_port"), text(o, "timeout_client_data"),
			text(o, "timeout_member_data"), text(o, "default_pool_id") != "")
	}
	for _, p := range c["pool"] {
		l.add("pool: %s %s, monitor %t", text(p, "protocol"), text(p, "lb_algorithm"), text(p, "healthmonitor_id") != "")
	}
	for _, m := range c["monitor"] {
		l.add("monitor: %s every %s s, timeout %s s, %s up, %s down", text(m, "type"), text(m, "delay"), text(m, "timeout"), text(m, "max_retries"),
			text(m, "max_retries_down"))
	}
	for _, m := range c["member"] {
		l.add("member: port %s, weight %s", text(m, "protocol_port"), text(m, "weight"))
	}
}

// role returns the role in the name of a security group.
func role(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
