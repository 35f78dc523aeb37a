package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// fakeCloud answers the core's calls like the real services; TestInfrastructureLife and others (tag openstack) run the same against those. Resources
// are in memory, and reach their final state after one or two reads.
type fakeCloud struct {
	mu    sync.Mutex
	next  int
	kinds map[string][]thing // "networks", …, in the order in which they were made
	looks map[string]int     // by ID of a server or volume: how often it was listed
	calls []string

	fault          func(n int, call string) fault0 // faults by call number, from 1
	buildErr       func(name string) string        // Nova's fault for a new server of that name; empty: none
	breakBalancers int                             // so many load balancers get ERROR next
	stuck          bool                            // volumes stay in creating
	console        string                          // the console of every server
	project        string                          // ID of the one that logs in
	regions        []string                        // that the services are in
	balancers      string                          // the default provider of load balancers
	lacks          string                          // kinds of services that it does not have
	compute        string                          // the newest version that Nova speaks; empty: any
	untagged       bool                            // Neutron takes no tags of a port that is made, but later
	strict         bool                            // what is asked for is checked as real services check it: see refuses
	zones          []string                        // in which Nova makes servers
	away           []string                        // zones in which nothing can be made for now
	hidden         []thing                         // flavors that lists do not show
	balancing      string                          // the newest version that Octavia speaks
	front          func(w http.ResponseWriter)     // the answer in front of Octavia, instead of its versions
	unpublished    bool                            // Designate's name servers take nothing over
}

type thing map[string]any

func (t thing) str(key string) string { s, _ := t[key].(string); return s }

// fault0 is the fault of one call.
type fault0 struct {
	status     int    // answered in place of being carried out
	text       string // with it
	retryAfter string
	late       bool // the request takes effect nevertheless, like that of a killed run
	before     bool // the connection is cut before the cloud gets the call
	after      bool // the cloud carries the call out, but its answer is lost
}

func newFakeCloud() *fakeCloud {
	f := &fakeCloud{kinds: map[string][]thing{}, looks: map[string]int{}, project: "project", regions: []string{"r"}}
	f.add("networks", thing{"name": "public", "router:external": true})
	f.add("flavors", thing{"name": "m1.small", "ram": 512, "vcpus": 1, "disk": 0})
	f.add("images", thing{"name": "debian-12", "status": "active"})
	return f
}

func (f *fakeCloud) add(kind string, t thing) thing {
	f.next++
	t["id"] = fmt.Sprintf("0a0a0a0a-0000-1000-8000-%012d", f.next)
	if t["tags"] == nil {
		t["tags"] = []any{}
	}
	f.kinds[kind] = append(f.kinds[kind], t)
	return t
}

func (f *fakeCloud) get(kind, id string) thing {
	for _, t := range f.kinds[kind] {
		if t.str("id") == id {
			return t
		}
	}
	return nil
}

func (f *fakeCloud) drop(kind, id string) {
	f.kinds[kind] = slices.DeleteFunc(f.kinds[kind], func(t thing) bool { return t.str("id") == id })
}

// RoundTrip answers a call, or does not.
func (f *fakeCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	var what fault0
	if f.fault != nil {
		what = f.fault(len(f.calls), f.calls[len(f.calls)-1])
	}
	if what.before {
		return nil, io.ErrUnexpectedEOF
	}
	w := httptest.NewRecorder()
	if what.status != 0 {
		if what.retryAfter != "" {
			w.Header().Set("Retry-After", what.retryAfter)
		}
		if what.late {
			f.serve(httptest.NewRecorder(), r)
		}
		refuse(w, what.status, what.text)
	} else {
		f.serve(w, r)
	}
	if what.after {
		return nil, io.ErrUnexpectedEOF
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, thing{"NeutronError": thing{"message": text, "type": "Fake"}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

func (f *fakeCloud) serve(w http.ResponseWriter, r *http.Request) {
	var body thing
	if r.Body != nil {
		data, _ := io.ReadAll(r.Body)
		_ = json.NewDecoder(bytes.NewReader(data)).Decode(&body)
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if f.strict && r.Method == http.MethodPost {
		if status, text := f.refuses(parts, body); status != 0 {
			refuse(w, status, text)
			return
		}
	}
	switch service, rest := r.URL.Hostname(), parts[1:]; service {
	case "keystone":
		f.login(w)
	case "neutron":
		f.neutron(w, r, rest, body)
	case "nova":
		f.nova(w, r, rest, body)
	case "cinder":
		f.cinder(w, r, rest[1:], body)
	case "octavia":
		if len(rest) == 0 && f.front != nil {
			f.front(w)
			return
		}
		if len(rest) == 0 {
			answer(w, 200, thing{"versions": []thing{{"id": "v2.0"}, {"id": "v" + f.balancing}}})
			return
		}
		f.octavia(w, r, rest[1:], body)
	case "designate":
		f.designate(w, r, rest, body)
	case "probe":
		if len(rest) == 2 { // v2/images/ID: of whatever visibility, which lists hide
			if t := f.get("images", rest[1]); t != nil {
				answer(w, 200, t)
				return
			}
			refuse(w, 404, "No image found")
			return
		}
		answer(w, 200, thing{"images": f.query("images", r.URL.Query())})
	default:
		refuse(w, 404, "no such service: "+service)
	}
}

func (f *fakeCloud) login(w http.ResponseWriter) {
	w.Header().Set("X-Subject-Token", "token")
	var catalog []thing
	for kind, u := range map[string]string{
		"network": "http://neutron/", "compute": "http://nova/v2.1", "block-storage": "http://cinder/v3/project",
		"image": "http://probe/", "identity": "http://keystone/v3",
		"load-balancer": "http://octavia/", "dns": "http://designate/",
	} {
		if slices.Contains(strings.Fields(f.lacks), kind) || kind == "dns" && f.kinds["zones"] == nil {
			continue
		}
		var endpoints []thing
		for _, r := range f.regions {
			endpoints = append(endpoints, thing{"interface": "public", "region": r, "url": u})
		}
		catalog = append(catalog, thing{"type": kind, "name": kind, "endpoints": endpoints})
	}
	project := thing{"id": f.project, "name": "name of " + f.project}
	roles := []thing{{"id": "r1", "name": "member"}, {"id": "r2", "name": "load-balancer_member"}}
	answer(w, 201, thing{"token": thing{"catalog": catalog, "project": project, "user": thing{"id": "u", "name": "u"}, "roles": roles, "expires_at": "2099-01-01T00:00:00.000000Z"}})
}

// query filters a list as Neutron and Glance do.
func (f *fakeCloud) query(kind string, q url.Values) []thing {
	out := []thing{}
	for _, t := range f.kinds[kind] {
		ok := true
		for _, k := range []string{"name", "description", "network_id", "id", "device_id", "floating_ip_address"} {
			ok = ok && (q.Get(k) == "" || q.Get(k) == t.str(k))
		}
		ok = ok && (kind != "images" || t.str("visibility") != "community")
		for _, tag := range q["tags"] {
			ok = ok && slices.Contains(t["tags"].([]any), any(tag))
		}
		for _, tag := range q["not-tags"] {
			ok = ok && !slices.Contains(t["tags"].([]any), any(tag))
		}
		if q.Get("router:external") != "" {
			ok = ok && t["router:external"] == true
		}
		if g := q.Get("security_groups"); g != "" {
			ok = ok && slices.Contains(t["security_groups"].([]any), any(g))
		}
		if ok {
			out = append(out, t)
		}
	}
	return out
}
