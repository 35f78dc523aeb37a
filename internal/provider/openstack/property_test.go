package openstack

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPlannedIsApplied applies random documents on random clouds, and then another document of the same cluster: apply refuses nothing that plan
// accepts, and leaves nothing to do. make test-full takes 500 documents.
func TestPlannedIsApplied(t *testing.T) {
	useFake(t)
	seed, documents := testkit.Rand(t).Uint64(), 60
	if testkit.Full() {
		documents = 500
	}
	var first, then tally
	for n := uint64(0); first.planned() < documents; n++ {
		f := randomCloud(random(seed, n, 0))
		if !first.apply(t, f, randomDocument(seed, n, 1), n) {
			if first.invalid > 10*documents {
				t.Fatal("hardly any document is valid")
			}
			continue
		}
		then.apply(t, f, randomDocument(seed, n, 2), n)
	}
	t.Logf("first documents: %+v; changed ones: %+v", first, then)
	if first.accepted < documents/10 || first.refused < documents/10 || then.accepted < documents/20 {
		t.Errorf("of %d documents, too few were accepted or refused, and the test shows little: %+v, then %+v", documents, first, then)
	}
}

// random returns a generator of random numbers, the same for the same arguments on purpose.
func random(seed, document, part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, document<<8|part))
}

// randomDocument returns a document; those of all parts have the same network and endpoint, which are fixed for a cluster's life.
func randomDocument(seed, document, part uint64) string {
	return "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t3-life}\nspec:\n" +
		randomSpec(random(seed, document, 255), random(seed, document, part))
}

// tally counts what became of documents.
type tally struct{ accepted, refused, invalid int }

func (c *tally) planned() int { return c.accepted + c.refused }

// apply plans and applies a document, and reports whether the cloud is now as the document wants it.
func (c *tally) apply(t *testing.T, f *fakeCloud, text string, n uint64) bool {
	t.Helper()
	doc, err := validation.Parse("random.yaml", []byte(text))
	if err != nil {
		c.invalid++
		return false
	}
	p := func() *Provider {
		return fakeProvider(t, f, doc, func(o *Options) {
			o.Calls.HTTPClient = &http.Client{Transport: unlimited{f}}
			o.Timeouts = Timeouts{Console: time.Nanosecond, Poll: time.Microsecond, Step: 5 * time.Second, Boot: 5 * time.Second, Delete: 5 * time.Second}
		})
	}
	if err := planned(t, p()); err != nil {
		c.refused++
		if k := fail.KindOf(err); k != fail.Refused && k != fail.Invalid {
			t.Errorf("document %d: plan fails, and does not refuse: %v error: %v\n%s", n, k, err, text)
		}
		return false
	}
	c.accepted++
	if err := applyWith(t.Context(), p(), provider.ConsentAddresses, provider.ConsentVolumes); err != nil {
		t.Errorf("document %d: plan accepts it, and apply does not: %v\n%s", n, err, text)
		return false
	}
	if err := settled(t, p()); err != nil {
		t.Errorf("document %d: after apply, %v\n%s", n, err, text)
		return false
	}
	return true
}

// TestRandomDocumentsSetEveryField: no field of the cloud's settings is left out of TestPlannedIsApplied.
func TestRandomDocumentsSetEveryField(t *testing.T) {
	set := map[string]bool{}
	for n := range uint64(400) {
		doc, err := validation.Parse("random.yaml", []byte(randomDocument(1, n, 1)))
		if err != nil {
			continue
		}
		for _, part := range []any{*doc.Spec.Provider.OpenStack, doc.Spec.Endpoint, doc.Spec.ControlPlane.Machine} {
			fieldsSet(reflect.ValueOf(part), set)
		}
		for _, pool := range doc.Spec.Workers {
			fieldsSet(reflect.ValueOf(pool.Machine), set)
		}
	}
	elsewhere := []string{ // logins, and fields of other providers
		"OpenStack.Cloud", "OpenStack.Credential", "OpenStack.Region", "Endpoint.VIP", "Gateways.Machines",
	}
	for field, is := range set {
		if is == slices.Contains(elsewhere, field) {
			t.Errorf("random documents set %s: %t", field, is)
		}
	}
	if len(set) < 50 {
		t.Errorf("only %d fields were found", len(set))
	}
}

// fieldsSet records the fields of a struct and of those in it, and which of them are not empty.
func fieldsSet(v reflect.Value, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fieldsSet(v.Elem(), set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fieldsSet(v.Index(i), set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
			if name != "Gateways.Machines" {
				fieldsSet(v.Field(i), set)
			}
		}
	}
}

// settled returns an error if a plan would refuse what apply has made, or change it.
func settled(t *testing.T, p *Provider) error {
	t.Helper()
	inv, err := p.Observe(t.Context())
	if err != nil {
		return err
	}
	steps, err := p.Steps(t.Context(), wanted(p.opts.Cluster), inv)
	if err != nil {
		return err
	}
	if len(steps) > 0 {
		return fmt.Errorf("there is still to do: %s %v", steps[0].ID, steps[0].Details)
	}
	return p.Preflight(t.Context(), wanted(p.opts.Cluster))
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

// randomShape returns the fields of a group's machines.
func randomShape(r *rand.Rand) string {
	out := "flavor: " + mostly(r, pick(r, `"2"`, `"7"`, hiddenSize), "m1.small", "huge", "m2.small")
	out += ", image: " + (mostly(r, pick(r, "debian-12", sharedImage, strings.ToUpper(sharedImage), "twice"), "new", "Ubuntu", oldImage))
	if volume := mostly(r, pick(r, "0", "10", "20"), "1", "5"); volume == "0" {
		out += ", rootVolumeGiB: 0"
	} else {
		out += ", rootVolumeGiB: " + volume + mostly(r, pick(r, "", ", rootVolumeType: fast", ", rootVolumeType: t1"), ", rootVolumeType: none")
	}
	out += mostly(r, pick(r, "", ", zones: [nova]", `, zones: [nova, "AZ 1"]`), ", zones: [gone]")
	out += pick(r, "", "", ", configDrive: true", ", configDrive: false") + pick(r, "", "", ", antiAffinity: hard", ", antiAffinity: soft", ", antiAffinity: none")
	out += mostly(r, pick(r, "", "", ", securityGroups: [web]", ", portSecurity: false", ", portSecurity: true"), ", securityGroups: [gone]", ", securityGroups: [twice]")
	out += mostly(r, pick(r, "", "", ", volumes: [{name: data, sizeGiB: 2, type: fast}]", ", volumes: [{name: a, sizeGiB: 1}, {name: b, sizeGiB: 3}]"), ", volumes: [{name: a, sizeGiB: 1, type: none}]")
	return out + pick(r, "", "", ", userData: ignition", ", userData: cloud-init")
}

// randomNetworks returns additional networks of a group's machines, which gateways can't have.
func randomNetworks(r *rand.Rand) string {
	return mostly(r, pick(r, "", "", ", networks: [{network: lan}]", ", networks: [{network: lan, subnet: sub4}]", ", networks: [{network: "+lanID+"}]"), ", networks: [{network: gone}]", ", networks: [{network: lan, subnet: gone}]")
}

// randomEndpoint returns the fields of an endpoint of any kind.
func randomEndpoint(r *rand.Rand) string {
	front := mostly(r, "", ", floatingIP: 198.51.100.251", ", floatingIP: 198.51.100.252", ", floatingIP: 198.51.100.253", ", port: 443", ", dnsName: api.example.org") // of the user, in use, not there
	switch r.IntN(6) {
	case 0, 1:
		fields := []string{"monitor: " + pick(r, "tls", "tcp")}
		kind := []string{"provider: ovn"}
		if r.IntN(3) > 0 { // which has neither flavors nor zones
			kind = []string{
				mostly(r, pick(r, "", "flavor: pair"), "flavor: triple"), mostly(r, pick(r, "", "zone: az1"), "zone: az2", "zone: off"),
				mostly(r, pick(r, "", "provider: amphora"), "provider: f5"),
			}
		}
		for _, f := range append(kind, pick(r, "", "", "internal: true"), pick(r, "", "ingress: {}", "ingress: {httpNodePort: 30100}"), pick(r, "", "allowedCIDRs: [203.0.113.0/24]")) {
			if f != "" {
				fields = append(fields, f)
			}
		}
		return "kind: octavia, octavia: {" + strings.Join(fields, ", ") + "}" + front
	case 2:
		own := pick(r, "", "", ", machine: {"+randomShape(r)+"}")
		return "kind: gateways, gateways: {replicas: " + pick(r, "1", "2", "3") + pick(r, "", ", ingress: {}") + own + "}" + front
	}
	return pick(r, "kind: direct", "kind: direct", "kind: address, address: lb.example.org")
}

// randomSpec returns a document's spec. What is fixed for a cluster's life comes from place.
func randomSpec(place, r *rand.Rand) string {
	network := mostly(place, pick(place, "cidr: 10.77.0.0/24", "cidr: 10.77.0.0/24, dnsServers: [9.9.9.9]", "existing: lan", "existing: "+lanID, "existing: lan, subnet: sub4", "cidr: 10.77.0.0/24, router: theirs"),
		"existing: none", "existing: lan, subnet: sub6", "cidr: 10.77.0.0/24, router: none", "cidr: 192.168.20.0/24, router: theirs")
	external := mostly(place, pick(place, "", "      externalNetwork: public\n"), "      externalNetwork: gone\n")
	access := "  access: {sshCIDRs: [198.51.100.0/24]" + pick(r, "", ", nodePortCIDRs: [203.0.113.0/24, 203.0.113.0/25]") + "}\n"
	site := pick(r, "", access) + pick(r, "", "  registry: {}\n") + pick(r, "", "  kubernetes: {cni: none}\n  smokeTest: false\n", "  addons: [{name: metrics-server}, {name: node-exporter}]\n")
	labels := pick(r, "", "", "      tags: [team=a, b]\n") + pick(r, "", "", "      metadata: {owner: me}\n", "      metadata: {owner: you, room: a}\n") +
		mostly(r, pick(r, "", "", "      floatingSubnet: floats\n"), "      floatingSubnet: gone\n") +
		mostly(r, pick(r, "", "", "      dns: {zone: example.org}\n"), "      dns: {zone: org, ttl: 1h}\n")
	classes := mostly(r, pick(r, "", "", "{name: inner, network: lan}", "{name: inner, network: lan, subnet: sub4}, {name: dmz, floatingNetwork: public, floatingSubnet: floats}",
		"{name: wide, floatingNetwork: public, floatingSubnetTags: [x]}"), "{name: inner, network: gone}", "{name: dmz, floatingNetwork: public, floatingSubnet: gone}")
	if classes != "" {
		labels += "      loadBalancerClasses: [" + classes + "]\n"
	}
	workers := ""
	for i := range r.IntN(3) {
		workers += fmt.Sprintf("    - {name: w%d, replicas: %d, machine: {%s}}\n", i, r.IntN(3), randomShape(r)+randomNetworks(r)+pick(r, "", "", ", floatingIP: true"))
	}
	if workers == "" {
		workers = "    - {name: w, replicas: 1}\n"
	}
	control, endpoint, replicas := pick(r, "", "", ", "+randomShape(r))+randomNetworks(r), randomEndpoint(place), pick(r, "1", "1", "3")
	if endpoint == "kind: direct" {
		replicas = "1"
	}
	return fmt.Sprintf(`  provider:
    openstack:
      trustOnFirstUse: true
%s      network: {%s}
      machine: {%s}
  endpoint: {%s}
%s  controlPlane: {replicas: %s, machine: {floatingIP: %s%s}}
  workers:
%s`, external+labels, network, randomShape(r), endpoint, site, replicas, pick(r, "true", "false"), control, workers)
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
	f.add("flavors", thing{"name": "pair", "ram": 256, "vcpus": 1, "disk": 0}) // the fake cloud has one list for machines and load balancers
	f.balancers = "amphora"
	for _, name := range []string{"octavia", "amphora", "ovn"} {
		f.add("providers", thing{"name": name})
	}
	f.add("availabilityzones", thing{"name": "az1"})
	f.add("availabilityzones", thing{"name": "off", "enabled": false})
	f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project})
	f.add("floatingips", thing{"floating_ip_address": "198.51.100.252", "project_id": f.project, "port_id": "taken", "fixed_ip_address": "10.0.0.9"})
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
	if len(f.kinds["networks"]) > 1 { // else there is no external network
		f.add("subnets", thing{"name": "floats", "network_id": public["id"], "ip_version": 4})
	}
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
	zone := f.addZone("example.org.")
	if !often() {
		f.addRecord(zone, "CNAME", pick(r, "api.example.org.", "api.t3-life.example.org."), "")
	}
	f.lacks = mostly(r, "", "load-balancer", "block-storage", "dns")
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
