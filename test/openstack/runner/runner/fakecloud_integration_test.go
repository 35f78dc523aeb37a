//go:build integration

package runner

import (
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// fakeCloud answers as the bed's services do, with content from the test. Tests of a killed runner then take a minute. The openstack tests do the
// same with the real services.
type fakeCloud struct {
	*httptest.Server
	t      *testing.T
	signer ssh.Signer

	mu    sync.Mutex
	lists map[string][]map[string]any // by the last element of the path
	gone  []map[string]any            // deleted servers
}

// fakeNetwork differs in each run, so that two runs on one host do not share machines.
var fakeNetwork = fmt.Sprintf("%08x-0000-4000-8000-000000000001", mathrand.Uint32())

const (
	fakeServer  = "5e5e5e5e-0000-4000-8000-000000000001"
	fakeAddress = "10.94.13.7"
	fakeVIP     = "10.94.13.8"
	fakePublic  = "198.51.100.77"
)

func newFakeCloud(t *testing.T) *fakeCloud {
	t.Helper()
	f := &fakeCloud{t: t, signer: sshtest.NewKey(t)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	f.lists = map[string][]map[string]any{
		"ports":    {{"id": "p1", "network_id": fakeNetwork, "device_id": fakeServer, "fixed_ips": []map[string]any{{"ip_address": fakeAddress}}}},
		"networks": {{"id": fakeNetwork, "name": "fake"}, {"id": "out", "name": "public", "router:external": true}},
		"subnets": {
			{"id": "s1", "network_id": fakeNetwork, "cidr": "10.94.13.0/24", "ip_version": 4, "gateway_ip": "10.94.13.1"},
			{"id": "s2", "network_id": "out", "cidr": "198.51.100.0/24", "ip_version": 4, "gateway_ip": "198.51.100.1"},
		},
	}
	f.fill()
	return f
}

// fill adds a server, a floating IP and a load balancer to the cloud.
func (f *fakeCloud) fill() {
	f.set("servers", f.server("ACTIVE", time.Now()))
	f.set("floatingips", map[string]any{"id": "f1", "floating_ip_address": fakePublic, "fixed_ip_address": fakeAddress, "port_id": "p1"})
	f.set("loadbalancers", map[string]any{
		"id": "lb", "name": "lb", "admin_state_up": true, "provisioning_status": "ACTIVE", "vip_address": fakeVIP, "vip_network_id": fakeNetwork,
	})
	f.set("listeners", map[string]any{
		"id": "l", "admin_state_up": true, "provisioning_status": "PENDING_CREATE", "protocol": "TCP", "protocol_port": 22, "connection_limit": -1,
		"default_pool_id": "pool", "loadbalancers": []map[string]any{{"id": "lb"}},
	})
	f.set("pools", map[string]any{"id": "pool", "admin_state_up": true, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"})
	f.set("members", map[string]any{"id": "m", "admin_state_up": true, "address": fakeAddress, "protocol_port": 22, "weight": 1})
	f.set("healthmonitors")
}

func (f *fakeCloud) server(status string, updated time.Time) map[string]any {
	return map[string]any{
		"id": fakeServer, "name": "one", "tenant_id": "project", "status": status, "updated": updated.UTC().Format(time.RFC3339),
		"created": updated.UTC().Format(time.RFC3339), "image": map[string]any{"id": "gone"},
	}
}

func (f *fakeCloud) set(list string, items ...map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list == "servers" {
		for _, s := range f.lists[list] {
			s["status"] = "DELETED"
			f.gone = append(f.gone, s)
		}
	}
	f.lists[list] = append([]map[string]any{}, items...)
}

func (f *fakeCloud) empty() {
	for _, l := range []string{"servers", "ports", "floatingips", "loadbalancers", "listeners", "pools", "members"} {
		f.set(l)
	}
}

func (f *fakeCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	word := strings.TrimSuffix(r.URL.Path, "/detail")
	word = word[strings.LastIndexByte(word, '/')+1:]
	items, known := f.lists[word]
	switch {
	case word == "tokens":
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		f.write(w, f.token())
	case word == "meta_data.json":
		f.write(w, map[string]any{
			"hostname": "one.novalocal", "public_keys": map[string]string{"k": sshtest.AuthorizedKey(f.signer.PublicKey())},
		})
	case word == "os-instance-actions":
		f.write(w, map[string]any{"instanceActions": f.lists["actions"]})
	case word == "servers" && r.URL.Query().Has("changes-since"): // the later of two entries for one server counts
		f.write(w, map[string]any{word: slices.Concat(f.gone, items)})
	case known:
		f.write(w, map[string]any{word: items})
	default:
		http.NotFound(w, r) // the image is deleted, and there is no user-data
	}
}

func (f *fakeCloud) write(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeCloud) token() any {
	var catalog []map[string]any
	for kind, version := range map[string]string{"compute": "v2.1", "network": "v2.0", "load-balancer": "v2", "volumev3": "v3", "image": "v2"} {
		catalog = append(catalog, map[string]any{"type": kind, "name": kind, "endpoints": []map[string]any{
			{"id": kind, "interface": "public", "region": "R", "region_id": "R", "url": f.URL + "/" + version},
		}})
	}
	return map[string]any{"token": map[string]any{"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "catalog": catalog}}
}

// bed writes the state directory that a runner of this cloud reads.
func (f *fakeCloud) bed() Options {
	f.t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "naupegos-runner-test-")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			f.t.Error(err)
		}
	})
	clouds := fmt.Sprintf("clouds:\n  naupegos-admin:\n    auth: {auth_url: %q, username: a, password: b, project_name: c, user_domain_name: d, project_domain_name: d}\n    region_name: R\n", f.URL+"/v3")
	for name, text := range map[string]string{"clouds.yaml": clouds, "metadata-secret": "shared\n"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	o := Options{State: base, MetadataURL: f.URL, Networks: []string{fakeNetwork}, Pace: 200 * time.Millisecond}
	o.Machines.Root, o.Machines.Supervisor = filepath.Join(base, "machines"), supervisor()
	return o
}
