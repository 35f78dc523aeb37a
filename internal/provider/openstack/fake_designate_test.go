package openstack

import (
	"net/http"
	"slices"
	"strings"
)

// addZone gives the fake cloud Designate, if it has none yet, with a zone of the project.
func (f *fakeCloud) addZone(name string) thing {
	return f.add("zones", thing{"name": name, "project_id": f.project, "type": "PRIMARY", "status": "ACTIVE"})
}

// addRecord adds a record of somebody else.
func (f *fakeCloud) addRecord(zone thing, kind, name, description string) thing {
	return f.add("recordsets", thing{
		"name": name, "type": kind, "zone_id": zone.str("id"), "zone_name": zone.str("name"), "records": []any{"192.0.2.1"}, "ttl": 300,
		"status": "ACTIVE", "action": "NONE", "description": description,
	})
}

// designate answers as the DNS service does: what is asked for is carried out after a look. TestDNSLife (tag openstack) does the same to the real one.
func (f *fakeCloud) designate(w http.ResponseWriter, r *http.Request, path []string, body thing) {
	wrong := func(status int, kind, text string) {
		answer(w, status, thing{"code": status, "type": kind, "message": text, "request_id": "req-1"})
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && len(path) == 1 && path[0] == "zones":
		answer(w, 200, thing{"zones": f.query("zones", q)})
	case r.Method == http.MethodGet && path[len(path)-1] == "recordsets":
		all := f.query("recordsets", q)
		if len(path) == 3 {
			all = slices.DeleteFunc(all, func(t thing) bool { return t.str("zone_id") != path[1] })
		}
		answer(w, 200, thing{"recordsets": all})
		f.publish()
	case f.get("zones", path[1]) == nil:
		wrong(404, "zone_not_found", "Could not find Zone")
	case r.Method == http.MethodPost:
		f.newRecord(w, f.get("zones", path[1]), body, wrong)
	case f.get("recordsets", path[3]) == nil:
		wrong(404, "recordset_not_found", "Could not find RecordSet")
	case r.Method == http.MethodPut:
		t := f.get("recordsets", path[3])
		for k, v := range body {
			t[k] = v
		}
		t["status"], t["action"] = "PENDING", "UPDATE"
		answer(w, 202, t)
	case r.Method == http.MethodDelete:
		t := f.get("recordsets", path[3])
		t["status"], t["action"] = "PENDING", "DELETE"
		answer(w, 202, t)
	default:
		wrong(405, "method_not_allowed", r.Method)
	}
}

// publish carries out what was asked for.
func (f *fakeCloud) publish() {
	if f.unpublished {
		return
	}
	for _, t := range slices.Clone(f.kinds["recordsets"]) {
		if t.str("action") == "DELETE" {
			f.drop("recordsets", t.str("id"))
			continue
		}
		t["status"], t["action"] = "ACTIVE", "NONE"
	}
}

func (f *fakeCloud) newRecord(w http.ResponseWriter, zone, body thing, wrong func(status int, kind, text string)) {
	for _, t := range f.kinds["recordsets"] {
		if t.str("name") != body.str("name") || t.str("zone_id") != zone.str("id") {
			continue
		}
		if t.str("type") == body.str("type") {
			wrong(409, "duplicate_recordset", "Duplicate RecordSet")
			return
		}
	}
	if !strings.HasSuffix(body.str("name"), zone.str("name")) {
		wrong(400, "invalid_object", "Provided object is not valid.")
		return
	}
	t := thing{"zone_id": zone.str("id"), "zone_name": zone.str("name"), "status": "PENDING", "action": "CREATE", "project_id": f.project}
	for k, v := range body {
		t[k] = v
	}
	answer(w, 202, f.add("recordsets", t))
}
