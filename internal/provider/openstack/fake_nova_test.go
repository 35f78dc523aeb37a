package openstack

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

func (f *fakeCloud) nova(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	if asked := r.Header.Get("X-OpenStack-Nova-API-Version"); cloud.Older(f.compute, asked) {
		const refusal = "Version %s is not supported by the API. Minimum is 2.1 and maximum is %s."
		answer(w, http.StatusNotAcceptable, thing{"computeFault": thing{"code": 406, "message": fmt.Sprintf(refusal, asked, f.compute)}})
		return
	}
	switch path[0] {
	case "flavors":
		if t := f.flavor(path[len(path)-1]); len(path) > 1 && path[1] != "detail" {
			if t == nil {
				refuse(w, 404, "Flavor could not be found")
				return
			}
			answer(w, 200, thing{"flavor": t})
			return
		}
		answer(w, 200, thing{"flavors": f.kinds["flavors"]})
	case "os-availability-zone":
		zones := []thing{}
		for _, z := range f.zones {
			zones = append(zones, thing{"zoneName": z, "zoneState": thing{"available": !slices.Contains(f.away, z)}})
		}
		answer(w, 200, thing{"availabilityZoneInfo": zones})
	case "os-server-groups":
		f.simple(w, r, path, body, "os-server-groups", "server_group", "server_groups", 200)
	case "os-keypairs":
		f.keypair(w, r, path, body)
	case "servers":
		f.server(w, r, path, body)
	}
}

// simple serves resources that can only be created, listed and removed.
func (f *fakeCloud) simple(w http.ResponseWriter, r *http.Request, path []string, body thing, kind, one, many string, made int) {
	switch {
	case r.Method == http.MethodPost:
		answer(w, made, thing{one: f.add(kind, thing(body[one].(map[string]any)))})
	case r.Method == http.MethodDelete && f.get(kind, path[1]) == nil:
		refuse(w, 404, "not found")
	case r.Method == http.MethodDelete:
		f.drop(kind, path[1])
		w.WriteHeader(204)
	default:
		answer(w, 200, thing{many: f.kinds[kind]})
	}
}

func (f *fakeCloud) keypair(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	named := func(t thing) bool { return len(path) > 1 && t.str("name") == path[1] }
	i := slices.IndexFunc(f.kinds["keypairs"], named)
	switch {
	case r.Method == http.MethodPost:
		k := thing(body["keypair"].(map[string]any))
		if slices.ContainsFunc(f.kinds["keypairs"], func(t thing) bool { return t.str("name") == k.str("name") }) {
			refuse(w, 409, "Key pair already exists")
			return
		}
		answer(w, 201, thing{"keypair": f.add("keypairs", k)})
	case i < 0:
		refuse(w, 404, "keypair not found")
	case r.Method == http.MethodDelete:
		f.kinds["keypairs"] = slices.Delete(f.kinds["keypairs"], i, i+1)
		w.WriteHeader(204)
	default:
		answer(w, 200, thing{"keypair": f.kinds["keypairs"][i]})
	}
}

func (f *fakeCloud) server(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	switch {
	case r.Method == http.MethodPost && len(path) == 1:
		f.makeServer(w, thing(body["server"].(map[string]any)), body["os:scheduler_hints"])
	case r.Method == http.MethodGet && len(path) == 1:
		brief := []thing{}
		for _, s := range f.listServers(r.URL.Query()) {
			brief = append(brief, thing{"id": s["id"], "name": s["name"]})
		}
		answer(w, 200, thing{"servers": brief})
	case len(path) == 2 && path[1] == "detail":
		all := []thing{}
		for _, s := range f.listServers(r.URL.Query()) {
			s = maps.Clone(s)
			delete(s, "fault") // as real lists say nothing of those for which no host was found
			all = append(all, s)
		}
		answer(w, 200, thing{"servers": all})
	case f.get("servers", path[1]) == nil:
		refuse(w, 404, "Instance could not be found")
	case r.Method == http.MethodGet:
		answer(w, 200, thing{"server": f.get("servers", path[1])})
	case r.Method == http.MethodDelete && len(path) == 2:
		s := f.get("servers", path[1])
		s["OS-EXT-STS:task_state"], f.looks[path[1]] = "deleting", 0
		w.WriteHeader(204)
	case r.Method == http.MethodPut: // tags, metadata
		f.get("servers", path[1])[path[2]] = body[path[2]]
		answer(w, 200, body)
	case len(path) > 2 && path[2] == "os-volume_attachments":
		f.attach(w, path, body)
	case body["os-getConsoleOutput"] != nil:
		answer(w, 200, thing{"output": f.console})
	default: // os-start, os-stop
		s := f.get("servers", path[1])
		for action, state := range map[string]string{"os-start": "ACTIVE", "os-stop": "SHUTOFF"} {
			if _, ok := body[action]; ok {
				s["status"] = state
			}
		}
		w.WriteHeader(202)
	}
}

// attach attaches a volume, or detaches it.
func (f *fakeCloud) attach(w http.ResponseWriter, path []string, body thing) {
	if len(path) == 4 {
		v := f.get("volumes", path[3])
		if v == nil || v.str("status") != "in-use" {
			refuse(w, 404, "no such attachment")
			return
		}
		v["status"], v["attachments"] = "available", []any{}
		w.WriteHeader(202)
		return
	}
	a := thing(body["volumeAttachment"].(map[string]any))
	v := f.get("volumes", a.str("volumeId"))
	if v == nil || v.str("status") != "available" {
		refuse(w, 400, "Invalid volume: status must be available")
		return
	}
	v["status"], v["attachments"] = "in-use", []any{thing{"server_id": path[1], "volume_id": v["id"]}}
	answer(w, 200, body)
}

// attached lists the volumes that are attached to a server, but its root volume.
func (f *fakeCloud) attached(server string) []thing {
	return slices.DeleteFunc(slices.Clone(f.kinds["volumes"]), func(v thing) bool {
		at, _ := v["attachments"].([]any)
		return len(at) == 0 || at[0].(thing).str("server_id") != server
	})
}

func (f *fakeCloud) makeServer(w http.ResponseWriter, s thing, hints any) {
	var nics []thing
	for _, n := range s["networks"].([]any) {
		port := f.get("ports", n.(map[string]any)["port"].(string))
		if port == nil || port.str("device_id") != "" {
			refuse(w, 409, "Port is still in use")
			return
		}
		nics = append(nics, port)
	}
	if disks, ok := s["block_device_mapping_v2"].([]any); ok {
		v := f.get("volumes", disks[0].(map[string]any)["uuid"].(string))
		if v == nil || v.str("status") != "available" {
			refuse(w, 400, "Block Device Mapping is Invalid")
			return
		}
	}
	f.add("servers", s)
	s["status"], s["hints"] = "BUILD", hints
	for _, port := range nics {
		port["device_id"], port["device_owner"] = s["id"], "compute:nova"
	}
	answer(w, 202, thing{"server": thing{"id": s["id"]}})
}

// listServers lists servers; each list advances changing ones. It ignores changes-since: every server counts as changed.
func (f *fakeCloud) listServers(by url.Values) []thing {
	tag, status := by.Get("tags"), by.Get("status")
	out := []thing{}
	for _, s := range slices.Clone(f.kinds["servers"]) {
		id := s.str("id")
		f.looks[id]++
		if s.str("OS-EXT-STS:task_state") == "deleting" && f.looks[id] > 1 {
			f.dropServer(s)
			continue
		}
		if s.str("status") == "BUILD" && f.looks[id] > 1 {
			f.built(s)
		}
		if tags, _ := s["tags"].([]any); (tag == "" || slices.Contains(tags, any(tag))) && (status == "" || status == s.str("status")) {
			out = append(out, s)
		}
	}
	return out
}

func (f *fakeCloud) built(s thing) {
	if f.buildErr != nil {
		if text := f.buildErr(s.str("name")); text != "" {
			s["status"], s["fault"] = "ERROR", thing{"code": 500, "message": text}
			return
		}
	}
	s["status"], s["OS-SRV-USG:launched_at"], s["OS-EXT-AZ:availability_zone"] = "ACTIVE", "2026-01-01T00:00:00.000000", "nova"
	if v := f.volumeOf(s); v != nil {
		v["status"] = "in-use"
	}
}

func (f *fakeCloud) volumeOf(s thing) thing {
	disks, ok := s["block_device_mapping_v2"].([]any)
	if !ok {
		return nil
	}
	return f.get("volumes", disks[0].(map[string]any)["uuid"].(string))
}

func (f *fakeCloud) dropServer(s thing) {
	f.drop("servers", s.str("id"))
	for _, o := range f.kinds["ports"] {
		if o.str("device_id") == s.str("id") {
			o["device_id"], o["device_owner"] = "", ""
		}
	}
	for _, v := range f.attached(s.str("id")) {
		f.drop("volumes", v.str("id"))
	}
	if v := f.volumeOf(s); v != nil {
		if s.str("status") == "ACTIVE" { // delete_on_termination; Nova forgets it of servers that it never scheduled
			f.drop("volumes", v.str("id"))
		}
	}
}

func (f *fakeCloud) cinder(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	switch {
	case r.Method == http.MethodPut: // metadata
		f.get("volumes", path[1])["metadata"] = body["metadata"]
		answer(w, 200, body)
		return
	case len(path) == 3: // os-extend
		f.get("volumes", path[1])["size"] = body["os-extend"].(map[string]any)["new_size"]
		w.WriteHeader(202)
		return
	}
	switch r.Method {
	case http.MethodPost:
		v := f.add("volumes", thing(body["volume"].(map[string]any)))
		v["status"] = "creating"
		answer(w, 202, thing{"volume": v})
	case http.MethodDelete:
		v := f.get("volumes", path[1])
		switch {
		case v == nil:
			refuse(w, 404, "Volume could not be found")
		case v.str("status") != "available" && !strings.HasPrefix(v.str("status"), "error"):
			refuse(w, 400, "Invalid volume: Volume status must be available or error")
		default:
			v["status"], f.looks[path[1]] = "deleting", 0
			w.WriteHeader(202)
		}
	default:
		if path[0] == "os-availability-zone" {
			answer(w, 200, thing{"availabilityZoneInfo": []thing{{"zoneName": "a", "zoneState": thing{"available": !slices.Contains(f.away, "a")}}}})
			return
		}
		if path[0] == "types" {
			answer(w, 200, thing{"volume_types": f.kinds["types"]})
			return
		}
		answer(w, 200, thing{"volumes": f.listVolumes(r.URL.Query())})
	}
}

func (f *fakeCloud) listVolumes(url.Values) []thing {
	out := []thing{}
	for _, v := range slices.Clone(f.kinds["volumes"]) {
		id := v.str("id")
		f.looks[id]++
		switch {
		case v.str("status") == "deleting" && f.looks[id] > 1:
			f.drop("volumes", id)
			continue
		case v.str("status") == "creating" && f.looks[id] > 2 && !f.stuck:
			v["status"] = "available"
		}
		out = append(out, v)
	}
	return out
}
