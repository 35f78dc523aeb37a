package openstack

import (
	"fmt"
	"slices"
	"strings"
)

// flavor returns one by its ID, also one that lists do not show.
func (f *fakeCloud) flavor(id string) thing {
	for _, t := range append(slices.Clone(f.kinds["flavors"]), f.hidden...) {
		if t.str("id") == id {
			return t
		}
	}
	return nil
}

// refuses returns real services' refusals of a creation: resources that do not exist, are not active, or can't be reached.
func (f *fakeCloud) refuses(path []string, body thing) (status int, text string) {
	ask := thing{}
	for _, v := range body {
		switch v := v.(type) {
		case map[string]any:
			ask = v
		case []any:
			if len(v) > 0 {
				ask, _ = v[0].(map[string]any)
			}
		}
	}
	image := func() (int, string) {
		if id := ask.str("imageRef"); id != "" && f.get("images", id).str("status") != "active" {
			return 400, "Image " + id + " is not active."
		}
		return 0, ""
	}
	switch path[len(path)-1] {
	case "servers":
		s, _ := body["server"].(map[string]any)
		ask = s
		if f.flavor(ask.str("flavorRef")) == nil {
			return 400, fmt.Sprintf("Flavor %s could not be found.", ask.str("flavorRef"))
		}
		if z := ask.str("availability_zone"); z != "" && !slices.Contains(f.zones, z) {
			return 400, "The requested availability zone is not available"
		}
		return image()
	case "volumes":
		if t := ask.str("volume_type"); t != "" && !slices.ContainsFunc(f.kinds["types"], func(have thing) bool { return have.str("name") == t || have.str("id") == t }) {
			return 404, "Volume type " + t + " could not be found."
		}
		if z := ask.str("availability_zone"); z != "" && z != "a" {
			return 400, "Availability zone '" + z + "' is invalid."
		}
		return image()
	case "ports":
		if on, told := f.get("networks", ask.str("network_id"))["port_security_enabled"].(bool); told && !on && (ask["security_groups"] == nil || len(ask["security_groups"].([]any)) > 0) {
			return 409, "Port security must be enabled and port must have an IP address in order to use security groups."
		}
	case "floatingips":
		if id := ask.str("subnet_id"); id != "" && f.get("subnets", id).str("network_id") != ask.str("floating_network_id") {
			return 404, "Subnet " + id + " could not be found."
		}
		return f.unreachable(ask)
	case "loadbalancers":
		for _, named := range []struct{ field, kind, by string }{{"flavor_id", "flavors", "id"}, {"provider", "providers", "name"}, {"availability_zone", "availabilityzones", "name"}} {
			if v := ask.str(named.field); v != "" && !slices.ContainsFunc(f.kinds[named.kind], func(t thing) bool { return t.str(named.by) == v && t["enabled"] != false }) {
				return 400, fmt.Sprintf("Validation failure: %s %s not found.", named.field, v)
			}
		}
	}
	return 0, ""
}

// unreachable says that no router leads from a port to the network of its floating IP.
func (f *fakeCloud) unreachable(ask thing) (status int, text string) {
	o := f.get("ports", ask.str("port_id"))
	for _, p := range f.kinds["ports"] {
		if o == nil || p.str("network_id") == o.str("network_id") && strings.HasPrefix(p.str("device_owner"), "network:router") {
			info, _ := f.get("routers", p.str("device_id"))["external_gateway_info"].(map[string]any)
			if o == nil || info["network_id"] == ask.str("floating_network_id") {
				return 0, ""
			}
		}
	}
	return 404, "External network " + ask.str("floating_network_id") + " is not reachable from subnet. Therefore, cannot associate Port with a Floating IP."
}
