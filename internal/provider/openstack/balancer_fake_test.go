package openstack

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
)

// octavia answers as the load-balancer service does: one change at a time, each of which takes two looks to be carried out.
// TestBalancerLife (tag openstack) does the same to the real one.
func (f *fakeCloud) octavia(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	kind, id := path[0], ""
	if len(path) > 1 {
		id = path[1]
	}
	var in thing
	for _, v := range body {
		if m, ok := v.(map[string]any); ok {
			in = thing(m)
		}
	}
	switch {
	case r.Method == http.MethodGet && len(path) == 3 && path[2] == "status":
		answer(w, 200, thing{"statuses": thing{"loadbalancer": thing{"id": id}}})
	case r.Method == http.MethodGet && len(path) == 3: // members
		answer(w, 200, thing{"members": f.inside("members", "pool_id", id)})
	case r.Method == http.MethodGet && id != "":
		f.look(id)
		if t := f.get(kind, id); t != nil {
			answer(w, 200, thing{"loadbalancer": t})
			return
		}
		refuse(w, 404, "not found")
	case r.Method == http.MethodGet && kind == "availabilityzones" && len(f.kinds[kind]) == 0:
		refuse(w, 404, "Not Found")
	case r.Method == http.MethodGet && kind == "availabilityzones":
		answer(w, 200, thing{"availability_zones": f.kinds[kind]})
	case r.Method == http.MethodGet:
		answer(w, 200, thing{kind: f.listOctavia(kind, r.URL.Query())})
	case kind == "loadbalancers" && r.Method == http.MethodPost:
		answer(w, 201, thing{"loadbalancer": f.newBalancer(in)})
	default:
		lb := f.balancerOf(kind, id, in)
		if lb == nil {
			refuse(w, 404, "not found")
		} else if lb.str("provisioning_status") != balancer.Active && lb.str("provisioning_status") != balancer.Broken {
			if r.Method == http.MethodDelete && kind == "loadbalancers" {
				refuse(w, 409, "Invalid state "+lb.str("provisioning_status")+" of loadbalancer resource "+lb.str("id"))
				return
			}
			refuse(w, 409, "Load Balancer "+lb.str("id")+" is immutable and cannot be updated.")
		} else {
			f.changeOctavia(w, r.Method, path, lb, in, body)
		}
	}
}

func (f *fakeCloud) inside(kind, key, id string) []thing {
	return slices.DeleteFunc(slices.Clone(f.kinds[kind]), func(t thing) bool { return t.str(key) != id })
}

func (f *fakeCloud) listOctavia(kind string, q url.Values) []thing {
	if kind == "loadbalancers" {
		for _, lb := range slices.Clone(f.kinds[kind]) {
			f.look(lb.str("id"))
		}
	}
	if lb := q.Get("loadbalancer_id"); lb != "" {
		return append([]thing{}, f.inside(kind, "lb", lb)...)
	}
	return f.query(kind, q)
}

// look advances a load balancer towards its final state.
func (f *fakeCloud) look(id string) {
	lb := f.get("loadbalancers", id)
	if lb == nil || lb.str("provisioning_status") == balancer.Active || lb.str("provisioning_status") == balancer.Broken {
		return
	}
	if f.looks[id]++; f.looks[id] < 2 {
		return
	}
	if lb.str("provisioning_status") == "PENDING_DELETE" {
		for _, kind := range []string{"listeners", "pools", "healthmonitors"} {
			for _, t := range f.inside(kind, "lb", id) {
				f.removeOctavia(kind, t.str("id"))
			}
		}
		f.drop("loadbalancers", id)
		f.removeNeutron("ports", lb.str("vip_port_id"))
		return
	}
	lb["provisioning_status"] = balancer.Active
	if f.breakBalancers > 0 {
		f.breakBalancers--
		lb["provisioning_status"] = balancer.Broken
	}
}

func (f *fakeCloud) busy(lb thing, state string) {
	lb["provisioning_status"] = state
	f.looks[lb.str("id")] = 0
}

func (f *fakeCloud) newBalancer(in thing) thing {
	sub := f.get("subnets", in.str("vip_subnet_id"))
	ip := in.str("vip_address")
	if ip == "" {
		ip = f.freeAddress()
	}
	port := f.add("ports", thing{
		"name": "octavia-lb", "device_owner": "Octavia", "network_id": sub.str("network_id"),
		"fixed_ips": []any{map[string]any{"subnet_id": sub.str("id"), "ip_address": ip}},
	})
	in["vip_address"], in["vip_port_id"] = ip, port.str("id")
	if in.str("provider") == "" {
		in["provider"] = f.balancers
	}
	lb := f.add("loadbalancers", in)
	f.busy(lb, "PENDING_CREATE")
	return lb
}

// balancerOf finds the load balancer that a call is about.
func (f *fakeCloud) balancerOf(kind, id string, in thing) thing {
	lb := in.str("loadbalancer_id")
	switch {
	case kind == "loadbalancers":
		lb = id
	case id != "":
		if t := f.get(kind, id); t != nil {
			lb = t.str("lb")
		}
	case in.str("pool_id") != "":
		lb = f.get("pools", in.str("pool_id")).str("lb")
	}
	return f.get("loadbalancers", lb)
}

func (f *fakeCloud) changeOctavia(w http.ResponseWriter, method string, path []string, lb, in, body thing) {
	kind := path[0]
	switch {
	case kind == "loadbalancers" && method == http.MethodDelete:
		f.busy(lb, "PENDING_DELETE")
		answer(w, 204, nil)
		return
	case method == http.MethodPost:
		in["lb"] = lb.str("id")
		made := f.add(kind, in)
		if pool := f.get("pools", in.str("pool_id")); kind == "healthmonitors" && pool != nil {
			pool["healthmonitor_id"] = made.str("id")
		}
		answer(w, 201, thing{strings.TrimSuffix(kind, "s"): made})
	case len(path) == 3 && method == http.MethodPut: // all members
		f.kinds["members"] = slices.DeleteFunc(f.kinds["members"], func(t thing) bool { return t.str("pool_id") == path[1] })
		for _, m := range body["members"].([]any) {
			t := thing(m.(map[string]any))
			t["pool_id"] = path[1]
			f.add("members", t)
		}
		answer(w, 202, nil)
	case method == http.MethodPut:
		for k, v := range in {
			f.get(kind, path[1])[k] = v
		}
		answer(w, 200, thing{strings.TrimSuffix(kind, "s"): f.get(kind, path[1])})
	case len(path) == 4:
		f.drop("members", path[3])
		answer(w, 204, nil)
	default:
		f.removeOctavia(kind, path[1])
		answer(w, 204, nil)
	}
	f.busy(lb, "PENDING_UPDATE")
}

func (f *fakeCloud) removeOctavia(kind, id string) {
	f.drop(kind, id)
	switch kind {
	case "pools":
		f.kinds["members"] = slices.DeleteFunc(f.kinds["members"], func(t thing) bool { return t.str("pool_id") == id })
		f.kinds["healthmonitors"] = slices.DeleteFunc(f.kinds["healthmonitors"], func(t thing) bool { return t.str("pool_id") == id })
	case "healthmonitors":
		for _, p := range f.kinds["pools"] {
			if p.str("healthmonitor_id") == id {
				p["healthmonitor_id"] = ""
			}
		}
	}
}
