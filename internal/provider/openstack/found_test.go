package openstack

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// planned observes, plans and checks, as naupegos plan does.
func planned(t *testing.T, p *Provider) error {
	t.Helper()
	inv, err := p.Observe(t.Context())
	if err != nil {
		return err
	}
	if _, err := p.Steps(t.Context(), wanted(p.opts.Cluster), inv); err != nil {
		return err
	}
	return p.Preflight(t.Context(), wanted(p.opts.Cluster))
}

// planProvider is a new provider on a fake cloud that has quotas, which plan asks for.
func planProvider(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster) *Provider {
	t.Helper()
	return fakeProvider(t, f, doc, func(o *Options) { o.Calls.HTTPClient = &http.Client{Transport: unlimited{f}} })
}

const harbour = `  provider:
    openstack:
      trustOnFirstUse: true
      network: {%network%}
      machine: {flavor: %flavor%, image: %image%, rootVolumeGiB: %volume%}
  endpoint: {%endpoint%}
  controlPlane: {replicas: 1, machine: {floatingIP: %floating%}}
  workers: [{name: w, replicas: 1}]
`

// harbourSpec is the spec of a document with these differences from the usual: pairs of a placeholder's name and its text.
func harbourSpec(change ...string) string {
	text := harbour
	for i := 0; i+1 < len(change); i += 2 {
		text = strings.ReplaceAll(text, "%"+change[i]+"%", change[i+1])
	}
	return strings.NewReplacer("%network%", "cidr: 10.77.0.0/24", "%flavor%", "m1.small", "%image%", "debian-12", "%volume%", "1",
		"%endpoint%", "kind: direct", "%floating%", "true").Replace(text)
}

// TestOneLookUp: plan and the step take the same thing of a name: the name first, a UUID by itself whatever hides it, and one refusal of both.
func TestOneLookUp(t *testing.T) {
	useFake(t)
	const shared = "7f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"
	for name, c := range map[string]struct {
		kind, key, value string // of the object that the test creates with it
		spec, refused    string
	}{
		"flavor by its name, another's ID":  {"servers", "flavorRef", "7", harbourSpec("flavor", `"2"`), ""},
		"flavor by its ID":                  {"servers", "flavorRef", "7", harbourSpec("flavor", `"7"`), ""},
		"private flavor by UUID":            {"servers", "flavorRef", "8f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", harbourSpec("flavor", "8f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"), ""},
		"no such flavor":                    {"", "", "", harbourSpec("flavor", "huge"), `flavor "huge", wanted for control-plane: machine.flavor: the cloud has no flavor called huge (there are: 2, m1.small, m2.small)`},
		"two flavors of a name":             {"", "", "", harbourSpec("flavor", "m2.small"), "the cloud has 2 flavors called m2.small"},
		"community image by UUID":           {"volumes", "imageRef", shared, harbourSpec("image", shared), ""},
		"its UUID in capitals":              {"volumes", "imageRef", shared, harbourSpec("image", strings.ToUpper(shared)), ""},
		"community image, no volume":        {"servers", "imageRef", shared, harbourSpec("image", shared, "flavor", `"7"`, "volume", "0"), ""},
		"community image by name":           {"", "", "", harbourSpec("image", "Ubuntu"), "the cloud has no image called Ubuntu"},
		"no such UUID":                      {"", "", "", harbourSpec("image", "00000000-4a1f-4f0e-9c1a-2d3e4f5a6b7c"), "the cloud has no image called 00000000"},
		"image being uploaded":              {"", "", "", harbourSpec("image", "new"), "image new is saving, not active"},
		"deactivated image by UUID":         {"", "", "", harbourSpec("image", "9f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"), "is deactivated, not active"},
		"two images of a name, one active":  {"volumes", "imageRef", "6f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", harbourSpec("image", "twice"), ""},
		"network by its UUID, in capitals":  {"ports", "network_id", "5f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", harbourSpec("network", "existing: 5F1B0C6E-4A1F-4F0E-9C1A-2D3E4F5A6B7C", "floating", "false"), ""},
		"network by a name, another's UUID": {"", "", "", harbourSpec("network", "existing: none"), "the cloud has no network called none"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud()
			f.kinds["flavors"] = append(f.kinds["flavors"],
				thing{"id": "2", "name": "m2.small", "ram": 2048, "vcpus": 1, "disk": 20}, thing{"id": "9", "name": "m2.small", "ram": 2048, "vcpus": 1, "disk": 20},
				thing{"id": "7", "name": "2", "ram": 8192, "vcpus": 4, "disk": 50})
			f.hidden = append(f.hidden, thing{"id": "8f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", "name": "mine", "ram": 8192, "vcpus": 4, "disk": 50})
			f.kinds["images"] = append(f.kinds["images"],
				thing{"id": shared, "name": "Ubuntu", "status": "active", "visibility": "community", "tags": []any{}},
				thing{"id": "9f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", "name": "old", "status": "deactivated", "tags": []any{}},
				thing{"id": "6f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", "name": "twice", "status": "active", "tags": []any{}},
				thing{"id": "3f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", "name": "twice", "status": "queued", "tags": []any{}},
				thing{"id": "4f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c", "name": "new", "status": "saving", "tags": []any{}})
			f.lan(thing{"id": "5f1b0c6e-4a1f-4f0e-9c1a-2d3e4f5a6b7c"}, nil)
			doc := testDocument(t, "t3-life", c.spec)
			err := planned(t, planProvider(t, f, doc))
			if c.refused != "" {
				testkit.Fails(t, err, fail.Refused, c.refused)
				return
			}
			testkit.Must(t, err)
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
			for _, made := range f.kinds[c.kind] {
				if got := made.str(c.key); got != c.value {
					t.Errorf("%s %s is made with %s %q, want %q", c.kind, made.str("name"), c.key, got, c.value)
				}
			}
			if len(f.kinds[c.kind]) == 0 {
				t.Errorf("no %s is made", c.kind)
			}
		})
	}
}

// lan adds another project's network "lan" with a subnet.
func (f *fakeCloud) lan(network, subnet thing) {
	net := thing{"name": "lan", "router:external": false, "admin_state_up": true, "port_security_enabled": true}
	sub := thing{
		"name": "sub4", "cidr": "192.168.20.0/24", "ip_version": 4, "gateway_ip": "192.168.20.1", "enable_dhcp": true,
		"allocation_pools": []any{map[string]any{"start": "192.168.20.10", "end": "192.168.20.200"}},
	}
	f.add("networks", net)
	for k, v := range network {
		net[k] = v
	}
	f.add("subnets", sub)
	sub["network_id"], net["subnets"] = net["id"], []any{sub["id"]}
	for k, v := range subnet {
		sub[k] = v
	}
}

// TestFactsOfNetworks: each property of an existing network that prevents machines from working is refused or reported on one line; other properties
// are not.
func TestFactsOfNetworks(t *testing.T) {
	useFake(t)
	existing := harbourSpec("network", "existing: lan", "floating", "false")
	floats := harbourSpec("network", "existing: lan")
	drives := strings.ReplaceAll(existing, "rootVolumeGiB: 1", "rootVolumeGiB: 1, configDrive: true")
	covered := map[string]bool{}
	for name, c := range map[string]struct {
		network, subnet thing
		router          any // ID of its external network; nil: there is no router
		spec            string
		refused, warned string
	}{
		"fine":                            {nil, nil, "out", floats, "", ""},
		"network down":                    {thing{"admin_state_up": false}, nil, nil, existing, "network lan is switched off", ""},
		"port security off":               {thing{"port_security_enabled": false}, nil, nil, existing, "port security switched off", ""},
		"DHCP off":                        {nil, thing{"enable_dhcp": false}, nil, existing, "subnet sub4 (192.168.20.0/24) gives out no addresses", ""},
		"DHCP off with config drives":     {nil, thing{"enable_dhcp": false}, nil, drives, "", "machines configure themselves from their config drives"},
		"no gateway, floating IPs wanted": {nil, thing{"gateway_ip": nil}, nil, floats, "has no gateway, and floating IPs reach", ""},
		"no gateway":                      {nil, thing{"gateway_ip": nil}, nil, existing, "", "has no gateway: its machines reach nothing"},
		"a router without a way out":      {nil, nil, "", existing, "", "the router of subnet sub4 has no external gateway: machines reach nothing"},
		"and floating IPs are wanted":     {nil, nil, "", floats, "the router of subnet sub4 has no external gateway, and floating IPs", ""},
		"shared address in another project's network":  {thing{"project_id": "other"}, nil, nil, strings.ReplaceAll(existing, "kind: direct", "kind: gateways"), "network lan belongs to another project", ""},
		"another project's network, no shared address": {thing{"project_id": "other"}, nil, nil, existing, "", ""},
		"a cloud that says little":                     {thing{"port_security_enabled": nil, "admin_state_up": nil}, thing{"enable_dhcp": nil}, nil, existing, "", ""},
	} {
		covered[name] = true
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud()
			f.lan(c.network, c.subnet)
			if c.router != nil {
				info := map[string]any{}
				if c.router != "" {
					info["network_id"] = f.kinds["networks"][0]["id"]
				}
				r := f.add("routers", thing{"name": "theirs", "external_gateway_info": info})
				lan := f.kinds["networks"][1]
				f.add("ports", thing{"network_id": lan["id"], "device_id": r["id"], "device_owner": "network:router_interface",
					"fixed_ips": []any{map[string]any{"ip_address": "192.168.20.1", "subnet_id": f.kinds["subnets"][0]["id"]}}, "security_groups": []any{}})
			}
			doc := testDocument(t, "t3-life", c.spec)
			p := planProvider(t, f, doc)
			err := planned(t, p)
			if c.refused != "" {
				testkit.Fails(t, err, fail.Refused, c.refused)
				if n := strings.Count(err.Error(), c.refused); n != 1 {
					t.Errorf("it is said %d times: %v", n, err)
				}
				return
			}
			testkit.Must(t, err)
			var odd []string
			for _, w := range p.Warnings() {
				if !strings.Contains(w, "no machine gets a floating IP") {
					odd = append(odd, w)
				}
			}
			if said := strings.Join(odd, "\n"); c.warned == "" && said != "" || !strings.Contains(said, c.warned) {
				t.Errorf("it warns: %q, want %q", said, c.warned)
			}
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
		})
	}
	for _, x := range facts {
		if !covered[x.name] {
			t.Errorf("no case for the fact %q", x.name)
		}
	}
}

// TestEveryFieldOfAPlaceIsChecked: each property that is read of an existing network and its subnet triggers a fact if it is bad. Only names and the
// project are exempt.
func TestEveryFieldOfAPlaceIsChecked(t *testing.T) {
	useFake(t)
	f := preflight{Provider: planProvider(t, newFakeCloud(), testDocument(t, "t3-life", harbourSpec("network", "existing: lan", "floating", "false")))}
	unchecked := []string{"Network.Name", "Network.Project", "Subnet.Name", "Subnet.CIDR"} // CIDR: suits checks it
	of := reflect.TypeFor[place]()
	for i := range of.NumField() {
		for j := range of.Field(i).Type.NumField() {
			name := of.Field(i).Name + "." + of.Field(i).Type.Field(j).Name
			var bad place
			switch v := reflect.ValueOf(&bad).Elem().Field(i).Field(j).Addr().Interface().(type) {
			case **bool:
				*v = new(bool)
			case *json.RawMessage:
				*v = json.RawMessage("null")
			}
			checked := slices.ContainsFunc(facts, func(x fact) bool { return x.is(bad, f) })
			if checked == slices.Contains(unchecked, name) {
				t.Errorf("%s is checked: %t", name, checked)
			}
		}
	}
}

// TestProviderNetworks: a cloud without external networks, routers and floating IPs serves a cluster only in an existing network.
func TestProviderNetworks(t *testing.T) {
	useFake(t)
	const mine = "existing: lan"
	for name, c := range map[string]struct{ spec, noL3, refused string }{
		"provider network":                {harbourSpec("network", mine, "floating", "false"), "", ""},
		"and an internal load balancer":   {harbourSpec("network", mine, "floating", "false", "endpoint", "kind: octavia, octavia: {internal: true}"), "", ""},
		"without the L3 extension":        {harbourSpec("network", mine, "floating", "false"), "routers floatingips", ""},
		"a floating IP wanted":            {harbourSpec("network", mine), "", "the cloud has 0 external networks, one is needed (put the machines into a network that is there"},
		"a network of its own":            {harbourSpec("floating", "false"), "", "the cloud has 0 external networks"},
		"a network of its own without L3": {harbourSpec(), "routers floatingips", "the network service has no routers or floating IPs"},
		"without security groups":         {harbourSpec("network", mine, "floating", "false"), "security-groups", "the network service has no security groups"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud()
			f.kinds["networks"] = nil
			f.balancing = balancerVersion
			f.lan(nil, nil)
			f.fault = func(_ int, call string) fault0 {
				for _, kind := range strings.Fields(c.noL3) {
					if strings.HasPrefix(call, "GET /v2.0/"+kind) {
						return fault0{status: 404, text: "The resource could not be found."}
					}
				}
				return fault0{}
			}
			doc := testDocument(t, "t3-life", c.spec)
			err := planned(t, planProvider(t, f, doc))
			if c.refused != "" {
				testkit.Fails(t, err, fail.Refused, c.refused)
				return
			}
			testkit.Must(t, err)
			p := fakeProvider(t, f, doc)
			testkit.Must(t, apply(t.Context(), p))
			if info, err := p.CloudInfo(t.Context()); err != nil || !info.InternalBalancers || info.FloatingNetworkID != "" {
				t.Errorf("%+v %v", info, err)
			}
			testkit.Must(t, destroy(t.Context(), fakeProvider(t, f, doc)))
		})
	}
}

// TestAddressOfPorts: the address in the machines' subnet counts, else one of IPv4, in whatever order Neutron lists them.
func TestAddressOfPorts(t *testing.T) {
	v6, v4, other := ports.IP{SubnetID: "s6", IPAddress: "2001:db8::5"}, ports.IP{SubnetID: "s4", IPAddress: "203.0.113.5"}, ports.IP{SubnetID: "x", IPAddress: "10.0.0.5"}
	for _, c := range []struct {
		ips    []ports.IP
		subnet string
		want   string
	}{
		{[]ports.IP{v6, v4}, "s4", "203.0.113.5"}, {[]ports.IP{v4, v6}, "s4", "203.0.113.5"}, {[]ports.IP{v6, other, v4}, "s4", "203.0.113.5"},
		{[]ports.IP{v6, v4}, "", "203.0.113.5"}, {[]ports.IP{v6, other}, "s4", "10.0.0.5"}, {[]ports.IP{v6}, "s4", "2001:db8::5"}, {nil, "s4", ""},
	} {
		if got := addressIn(ports.Port{FixedIPs: c.ips}, c.subnet); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestZonesThatLabelsChange: where the volume driver would hand on another name than Cinder's, volumes are made in a zone of Cinder's own.
func TestZonesThatLabelsChange(t *testing.T) {
	for zone, foreign := range map[string]bool{
		"nova": false, "az-1": false, "eu.de_1": false, "1": false, "AZ 1": true, "Zürich": true, "Zone 1 (north)": true, "az:1": true, "-a": true, "a.": true, "": true,
		strings.Repeat("a", 63): false, strings.Repeat("a", 64): true,
	} {
		var i provider.CloudInfo
		placeVolumes(&i, []string{zone}, []string{zone})
		if i.IgnoreVolumeZone != foreign || foreign && i.VolumeZone != zone {
			t.Errorf("%q: %+v", zone, i)
		}
	}
}

// TestSecondOperator: Nova shows each user their own keypairs alone: that of the first one stays, and its user and command are named.
func TestSecondOperator(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
	for _, s := range f.kinds["servers"] {
		s["user_id"] = "anna"
	}
	steps := func(p *Provider) string {
		inv, err := p.Observe(t.Context())
		testkit.Must(t, err)
		var out []string
		for _, s := range p.Destroy(t.Context(), inv) {
			out = append(out, s.Details...)
		}
		return strings.Join(out, "\n")
	}
	const says = "keypair t3-life-0badc0de stays: it belongs to user anna, who can delete it with `openstack keypair delete t3-life-0badc0de`"
	if said := steps(fakeProvider(t, f, doc)); strings.Contains(said, "stays") {
		t.Error(said)
	}
	second := func(o *Options) { o.Calls.HTTPClient = &http.Client{Transport: secondUser{f}} }
	if said := steps(fakeProvider(t, f, doc, second)); strings.Count(said, says) != 1 {
		t.Errorf("%s", said)
	}
	testkit.Must(t, destroy(t.Context(), fakeProvider(t, f, doc, second)))
}

// secondUser sees no keypairs of the first one.
type secondUser struct{ f *fakeCloud }

// RoundTrip hides keypairs.
func (s secondUser) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "os-keypairs") && r.Method == http.MethodGet {
		r = r.Clone(r.Context())
		r.URL.Path += "-of-another-user"
	}
	return s.f.RoundTrip(r)
}
