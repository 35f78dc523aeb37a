package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// singular names one of a kind, as bodies do.
var singular = map[string]string{
	"networks": "network", "subnets": "subnet", "routers": "router", "ports": "port", "floatingips": "floatingip",
	"security-groups": "security_group", "security-group-rules": "security_group_rule",
}

func (f *fakeCloud) neutron(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	kind := path[0]
	one := singular[kind]
	many := strings.ReplaceAll(kind, "-", "_")
	switch {
	case len(path) == 1 && r.Method == http.MethodGet:
		answer(w, 200, thing{many: f.query(kind, r.URL.Query())})
	case len(path) == 1 && body[many] != nil:
		var made []thing
		for _, v := range body[many].([]any) {
			t, status, text := f.makeNeutron(kind, thing(v.(map[string]any)))
			if status != 0 {
				for _, m := range made {
					f.drop(kind, m.str("id"))
				}
				refuse(w, status, text)
				return
			}
			made = append(made, t)
		}
		answer(w, 201, thing{many: made})
	case len(path) == 1:
		t, status, text := f.makeNeutron(kind, thing(body[one].(map[string]any)))
		if status != 0 {
			refuse(w, status, text)
			return
		}
		answer(w, 201, thing{one: t})
	case f.get(kind, path[1]) == nil:
		refuse(w, 404, kind+" "+path[1]+" could not be found")
	case len(path) == 2 && r.Method == http.MethodGet:
		answer(w, 200, thing{one: f.get(kind, path[1])})
	case len(path) == 3 && path[2] == "tags":
		f.get(kind, path[1])["tags"] = body["tags"]
		answer(w, 200, thing{"tags": body["tags"]})
	case len(path) == 3:
		f.routerInterface(w, path, body)
	case r.Method == http.MethodDelete:
		if by := f.holds(kind, f.get(kind, path[1])); by != "" {
			refuse(w, 409, fmt.Sprintf("%s %s is in use: %s", kind, path[1], by))
			return
		}
		f.removeNeutron(kind, path[1])
		w.WriteHeader(204)
	case r.Method == http.MethodPut:
		t := f.get(kind, path[1])
		for k, v := range body[one].(map[string]any) {
			t[k] = v
		}
		answer(w, 200, thing{one: t})
	default:
		refuse(w, 404, "no such path")
	}
}

func (f *fakeCloud) makeNeutron(kind string, t thing) (_ thing, status int, text string) {
	switch kind {
	case "subnets":
		t["gateway_ip"] = strings.TrimSuffix(t.str("cidr"), "0/24") + "1"
		net := f.get("networks", t.str("network_id"))
		if net["subnets"] != nil {
			return nil, 400, "Invalid input: overlaps with another subnet"
		}
		f.add(kind, t)
		net["subnets"] = []any{t["id"]}
		return t, 0, ""
	case "security-groups":
		f.add(kind, t)
		t["security_group_rules"] = []any{}
		for _, ether := range []string{"IPv4", "IPv6"} {
			f.makeNeutron("security-group-rules", thing{"direction": "egress", "ethertype": ether, "security_group_id": t["id"]})
		}
		return t, 0, ""
	case "security-group-rules":
		g := f.get("security-groups", t.str("security_group_id"))
		f.add(kind, t)
		g["security_group_rules"] = append(g["security_group_rules"].([]any), t)
		return t, 0, ""
	case "ports":
		if f.untagged && t["tags"] != nil {
			return nil, 400, "Unrecognized attribute(s) 'tags'"
		}
		if t["fixed_ips"] == nil { // Neutron chooses a subnet
			t["fixed_ips"] = []any{map[string]any{"subnet_id": "any"}}
		}
		for i := range t["fixed_ips"].([]any) {
			ip := t["fixed_ips"].([]any)[i].(map[string]any)
			if ip["ip_address"] == nil {
				ip["ip_address"] = f.freeAddress()
			}
		}
		if t["device_id"] == nil {
			t["device_id"], t["device_owner"] = "", ""
		}
		if t["security_groups"] == nil {
			t["security_groups"] = []any{}
		}
	case "floatingips":
		f.next++
		t["floating_ip_address"], t["project_id"] = fmt.Sprintf("198.51.100.%d", f.next%250), f.project
	}
	return f.add(kind, t), 0, ""
}

// freeAddress gives out an address that no port has.
func (f *fakeCloud) freeAddress() string {
	for {
		f.next++
		ip := fmt.Sprintf("10.77.0.%d", 10+f.next%200)
		if !slices.ContainsFunc(f.kinds["ports"], func(o thing) bool {
			ips, _ := o["fixed_ips"].([]any) // a test may add a port without
			return slices.ContainsFunc(ips, func(x any) bool { return x.(map[string]any)["ip_address"] == ip })
		}) {
			return ip
		}
	}
}

func (f *fakeCloud) removeNeutron(kind, id string) {
	t := f.get(kind, id)
	f.drop(kind, id)
	switch kind {
	case "security-group-rules":
		g := f.get("security-groups", t.str("security_group_id"))
		g["security_group_rules"] = slices.DeleteFunc(g["security_group_rules"].([]any), func(r any) bool { return r.(thing).str("id") == id })
	case "security-groups":
		f.kinds["security-group-rules"] = slices.DeleteFunc(f.kinds["security-group-rules"], func(r thing) bool {
			return r.str("security_group_id") == id || r.str("remote_group_id") == id
		})
		for _, g := range f.kinds[kind] { // rules of other groups for this one are deleted with it
			g["security_group_rules"] = slices.DeleteFunc(g["security_group_rules"].([]any), func(r any) bool { return r.(thing).str("remote_group_id") == id })
		}
	case "subnets":
		delete(f.get("networks", t.str("network_id")), "subnets")
	case "ports":
		for _, fip := range f.kinds["floatingips"] {
			if fip.str("port_id") == id {
				fip["port_id"] = nil
			}
		}
	}
}

// holds returns what prevents the removal of a resource.
func (f *fakeCloud) holds(kind string, t thing) string {
	id := t.str("id")
	for _, o := range f.kinds["ports"] {
		switch kind {
		case "networks":
			if o.str("network_id") == id {
				return "port " + o.str("id")
			}
		case "subnets":
			if o["fixed_ips"].([]any)[0].(map[string]any)["subnet_id"] == id {
				return "port " + o.str("id")
			}
		case "routers":
			if o.str("device_id") == id {
				return "interface " + o.str("id")
			}
		case "security-groups":
			if slices.Contains(o["security_groups"].([]any), any(id)) {
				return "port " + o.str("id")
			}
		}
	}
	if kind == "ports" && t.str("device_owner") == "network:router_interface" {
		return "router interface"
	}
	return ""
}

func (f *fakeCloud) routerInterface(w http.ResponseWriter, path []string, body thing) {
	o := f.get("ports", body.str("port_id"))
	switch {
	case o == nil:
		refuse(w, 404, "port could not be found")
	case path[2] == "add_router_interface" && o.str("device_id") != "":
		refuse(w, 409, "port is in use")
	case path[2] == "add_router_interface":
		o["device_id"], o["device_owner"] = path[1], "network:router_interface"
		answer(w, 200, thing{"id": path[1], "port_id": o["id"]})
	case len(f.withPort()) > 0:
		refuse(w, 409, "Router interface is required by one or more floating IPs")
	default:
		f.drop("ports", o.str("id"))
		answer(w, 200, thing{"id": path[1], "port_id": o["id"]})
	}
}

// withPort lists the floating IPs that lead somewhere.
func (f *fakeCloud) withPort() []thing {
	return slices.DeleteFunc(slices.Clone(f.kinds["floatingips"]), func(t thing) bool { return t.str("port_id") == "" })
}
