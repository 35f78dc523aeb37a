package openstack

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPlannedIsApplied applies random documents on random clouds: apply refuses nothing that plan accepts. make test-full takes 500 documents.
func TestPlannedIsApplied(t *testing.T) {
	useFake(t)
	seed, documents := testkit.Rand(t).Uint64(), 60
	if testkit.Full() {
		documents = 500
	}
	accepted, refused, invalid := 0, 0, 0
	for n := 0; accepted+refused < documents; n++ {
		r := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // repeatable on purpose
		text := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t3-life}\nspec:\n" + randomSpec(r)
		doc, err := validation.Parse("random.yaml", []byte(text))
		if err != nil {
			if invalid++; invalid > 10*documents {
				t.Fatalf("hardly any document is valid: %v", err)
			}
			continue
		}
		f := randomCloud(r)
		provider := func() *Provider {
			return fakeProvider(t, f, doc, func(o *Options) {
				o.Calls.HTTPClient = &http.Client{Transport: unlimited{f}}
				o.Timeouts = Timeouts{Console: time.Nanosecond, Poll: time.Microsecond, Step: 5 * time.Second, Boot: 5 * time.Second, Delete: 5 * time.Second}
			})
		}
		if err := planned(t, provider()); err != nil {
			refused++
			if k := fail.KindOf(err); k != fail.Refused && k != fail.Invalid {
				t.Errorf("document %d: plan fails, and does not refuse: %v error: %v\n%s", n, k, err, text)
			}
			continue
		}
		accepted++
		if err := apply(t.Context(), provider()); err != nil {
			t.Errorf("document %d: plan accepts it, and apply does not: %v\n%s", n, err, text)
		}
	}
	t.Logf("%d accepted and applied, %d refused, %d invalid", accepted, refused, invalid)
	if accepted < documents/10 || refused < documents/10 {
		t.Errorf("of %d documents, %d were accepted and %d refused: the test shows little", documents, accepted, refused)
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// mostly returns the first, and one time in twenty one of the others.
func mostly(r *rand.Rand, first string, others ...string) string {
	if r.IntN(20) > 0 {
		return first
	}
	return pick(r, others...)
}

const (
	sharedImage = "7f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"
	oldImage    = "9f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"
	hiddenSize  = "8f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"
	lanID       = "5f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"
)

func randomSpec(r *rand.Rand) string {
	machine := func() string {
		out := "flavor: " + mostly(r, pick(r, `"2"`, `"7"`, hiddenSize), "m1.small", "huge", "m2.small")
		out += ", image: " + (mostly(r, pick(r, "debian-12", sharedImage, strings.ToUpper(sharedImage), "twice"), "new", "Ubuntu", oldImage))
		out += ", rootVolumeGiB: " + mostly(r, pick(r, "0", "10", "20"), "1", "5")
		out += mostly(r, pick(r, "", ", rootVolumeType: fast", ", rootVolumeType: t1"), ", rootVolumeType: none")
		out += mostly(r, pick(r, "", ", zones: [nova]", `, zones: [nova, "AZ 1"]`), ", zones: [gone]")
		out += mostly(r, pick(r, "", "", ", securityGroups: [web]", ", portSecurity: false", ", portSecurity: true"), ", securityGroups: [gone]", ", securityGroups: [twice]")
		out += mostly(r, pick(r, "", "", ", volumes: [{name: data, sizeGiB: 2, type: fast}]", ", volumes: [{name: a, sizeGiB: 1}, {name: b, sizeGiB: 3}]"), ", volumes: [{name: a, sizeGiB: 1, type: none}]")
		out += mostly(r, pick(r, "", "", ", networks: [{network: lan}]", ", networks: [{network: lan, subnet: sub4}]"), ", networks: [{network: gone}]", ", networks: [{network: lan, subnet: gone}]")
		return out + pick(r, "", "", ", configDrive: true", ", antiAffinity: hard")
	}
	network := mostly(r, pick(r, "cidr: 10.77.0.0/24", "existing: lan", "existing: "+lanID, "existing: lan, subnet: sub4", "cidr: 10.77.0.0/24, router: theirs"),
		"existing: none", "existing: lan, subnet: sub6", "cidr: 10.77.0.0/24, router: none")
	endpoint := pick(r, "kind: direct", "kind: direct", "kind: octavia", "kind: octavia, octavia: {internal: true}", "kind: gateways")
	site := mostly(r, pick(r, "", "", "      tags: [team=a, b]\n", "      metadata: {owner: me}\n"), "      floatingSubnet: gone\n") +
		mostly(r, pick(r, "", "", "      loadBalancerClasses: [{name: inner, network: lan}]\n"), "      loadBalancerClasses: [{name: inner, network: gone}]\n")
	external := mostly(r, pick(r, "", "      externalNetwork: public\n"), "      externalNetwork: gone\n")
	workers := ""
	for i := range r.IntN(3) {
		workers += fmt.Sprintf("    - {name: w%d, replicas: %d, machine: {%s}}\n", i, r.IntN(3), machine())
	}
	if workers == "" {
		workers = "    - {name: w, replicas: 1}\n"
	}
	return fmt.Sprintf(`  provider:
    openstack:
      trustOnFirstUse: true
%s      network: {%s}
      machine: {%s}
  endpoint: {%s}
  controlPlane: {replicas: %s, machine: {floatingIP: %s}}
  workers:
%s`, external+site, network, machine(), endpoint, pick(r, "1", "1", "3"), pick(r, "true", "false"), workers)
}

// randomCloud returns a fake cloud in which some objects are missing, shared, hidden, down or duplicated.
func randomCloud(r *rand.Rand) *fakeCloud {
	f := newFakeCloud()
	often := func() bool { return r.IntN(20) > 0 }
	f.strict, f.balancing, f.zones, f.console = true, balancerVersion, []string{"nova", "AZ 1"}, ""
	f.kinds["flavors"] = append(f.kinds["flavors"],
		thing{"id": "2", "name": "m2.small", "ram": 2048, "vcpus": 1, "disk": 20}, thing{"id": "9", "name": "m2.small", "ram": 2048, "vcpus": 1, "disk": 20},
		thing{"id": "7", "name": "2", "ram": 8192, "vcpus": 4, "disk": 50})
	f.hidden = append(f.hidden, thing{"id": hiddenSize, "name": "mine", "ram": 8192, "vcpus": 4, "disk": 50})
	for id, i := range map[string]thing{
		sharedImage: {"name": "Ubuntu", "status": "active", "visibility": "community", "min_disk": r.IntN(10)}, oldImage: {"name": "old", "status": "deactivated"},
		"6f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c": {"name": "twice", "status": "active"}, "3f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c": {"name": "twice", "status": "queued"},
		"4f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c": {"name": "new", "status": "saving"},
	} {
		i["id"], i["tags"] = id, []any{}
		f.kinds["images"] = append(f.kinds["images"], i)
	}
	f.kinds["types"] = []thing{{"id": "t1", "name": "fast"}}
	f.add("security-groups", thing{"name": "web", "security_group_rules": []any{}})
	for range 2 {
		f.add("security-groups", thing{"name": "twice", "security_group_rules": []any{}})
	}
	public := f.kinds["networks"][0]
	switch r.IntN(20) {
	case 0:
		f.kinds["networks"] = nil
	case 1:
		f.add("networks", thing{"name": "second", "router:external": true})
	}
	gateway := any("192.168.20.1")
	if !often() {
		gateway = nil
	}
	f.lan(thing{"id": lanID, "project_id": f.project, "admin_state_up": often(), "port_security_enabled": often()}, thing{"enable_dhcp": often(), "gateway_ip": gateway})
	info := map[string]any{}
	if often() {
		info["network_id"] = public["id"]
	}
	router := f.add("routers", thing{"name": "theirs", "external_gateway_info": info})
	if often() && gateway != nil {
		lan := f.kinds["networks"][len(f.kinds["networks"])-1]
		f.add("ports", thing{"network_id": lan["id"], "device_id": router["id"], "device_owner": "network:router_interface",
			"fixed_ips": []any{map[string]any{"ip_address": "192.168.20.1", "subnet_id": f.kinds["subnets"][0]["id"]}}, "security_groups": []any{}})
	}
	f.lacks = mostly(r, "", "load-balancer", "block-storage")
	absent := mostly(r, "", "routers floatingips", "security-groups")
	f.fault = func(_ int, call string) fault0 {
		for _, kind := range strings.Fields(absent) {
			if strings.Contains(call, "/v2.0/"+kind) {
				return fault0{status: 404, text: "The resource could not be found."}
			}
		}
		return fault0{}
	}
	return f
}
