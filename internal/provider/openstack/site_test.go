package openstack

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// siteSteps returns the steps that a document needs now.
func siteSteps(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster) []*plan.Step {
	t.Helper()
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(t.Context(), wanted(doc), inv)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// siteApply applies a document, and checks that nothing is to do then.
func siteApply(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster, consents ...string) {
	t.Helper()
	if err := applyWith(t.Context(), fakeProvider(t, f, doc), consents...); err != nil {
		t.Fatal(err)
	}
	nothingLeftToDo(t, f, doc)
}

// siteGone destroys the cluster, and checks that the cloud has what it had before.
func siteGone(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster, before []string) {
	t.Helper()
	if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	if left := f.listing(); !slices.Equal(left, before) {
		t.Errorf("the cloud had\n%s\nand has\n%s", strings.Join(before, "\n"), strings.Join(left, "\n"))
	}
}

func tagsOf(x thing) []string {
	var out []string
	for _, t := range x["tags"].([]any) {
		if s, _ := t.(string); !strings.HasPrefix(s, "naupegos-") {
			out = append(out, s)
		}
	}
	return out
}

// TestTagsAndMetadata: everything of the cluster carries the document's tags or metadata from the start; changes are one step that replaces nothing; tags
// of others stay.
func TestTagsAndMetadata(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.balancing = balancerVersion
	doc.Spec.Endpoint = v1alpha1.Endpoint{Kind: v1alpha1.EndpointOctavia, Port: 6443}
	before := f.listing()
	os := doc.Spec.Provider.OpenStack
	kinds := []string{"networks", "subnets", "routers", "security-groups", "ports", "floatingips", "servers", "loadbalancers"}
	hand := ""
	for _, tags := range [][]string{{"team=a", "b"}, {"b", "c"}, nil, {"z"}} {
		os.Tags, os.Metadata = tags, nil
		if len(tags) > 0 {
			os.Metadata = map[string]string{"owner": tags[0]}
		}
		servers := len(f.kinds["servers"])
		if steps := siteSteps(t, f, doc); servers > 0 && (len(steps) != 1 || steps[0].ID != labelsStep || steps[0].Consent != "") {
			t.Errorf("%v: %d steps, the first: %v", tags, len(steps), steps[0].Title)
		}
		siteApply(t, f, doc)
		for _, kind := range kinds {
			found := 0
			for _, x := range f.kinds[kind] {
				if x.str("name") == "public" || kind == "ports" && x.str("device_owner") == "Octavia" {
					continue
				}
				found++
				want := slices.Clone(tags)
				if x.str("id") == hand {
					want = append(want, "by-hand")
				}
				if have := tagsOf(x); !sameSet(have, want) {
					t.Errorf("%s %s has tags %v, want %v", kind, x.str("name"), have, want)
				}
			}
			if found == 0 {
				t.Errorf("no %s", kind)
			}
		}
		for _, x := range slices.Concat(f.kinds["servers"], f.kinds["volumes"]) {
			have, _ := x["metadata"].(map[string]any)
			if owner, _ := have["owner"].(string); owner != os.Metadata["owner"] || have["naupegos_cluster"] == nil {
				t.Errorf("%s has metadata %v", x.str("name"), have)
			}
		}
		if hand == "" {
			x := f.kinds["servers"][0]
			x["tags"], hand = append(x["tags"].([]any), "by-hand"), x.str("id")
		}
	}
	siteGone(t, f, doc, before)
}

// TestSecurityGroupsOfPorts: additional groups and port security change in place, and the user's groups stay.
func TestSecurityGroupsOfPorts(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	web := f.add("security-groups", thing{"name": "web", "security_group_rules": []any{}})
	before := f.listing()
	shape := &doc.Spec.Workers[0].Machine
	port := func() thing {
		i := slices.IndexFunc(f.kinds["ports"], func(o thing) bool { return o.str("name") == "t3-life-w-1" })
		return f.kinds["ports"][i]
	}
	for _, c := range []struct {
		groups []string
		off    *bool
		want   int
	}{{[]string{"web"}, nil, 2}, {[]string{web.str("id")}, nil, 2}, {nil, nil, 1}, {nil, new(false), 0}, {[]string{"web"}, nil, 2}} {
		shape.SecurityGroups, shape.PortSecurity = c.groups, c.off
		siteApply(t, f, doc)
		o := port()
		if have := o["security_groups"].([]any); len(have) != c.want || c.groups != nil && !slices.Contains(have, any(web.str("id"))) {
			t.Errorf("%v: the port has %v", c, have)
		}
		if on, told := o["port_security_enabled"].(bool); told && on != (c.want > 0) {
			t.Errorf("%v: port security is %v", c, on)
		}
	}
	shape.SecurityGroups = []string{"gone"}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Steps(t.Context(), wanted(doc), inv); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "gone") {
		t.Errorf("an unknown group: %v", err)
	}
	shape.SecurityGroups = nil
	siteGone(t, f, doc, before)
}

// TestAdditionalNetworks: a machine gets its ports in order, and they go with it; the user's network stays.
func TestAdditionalNetworks(t *testing.T) {
	for _, untagged := range []bool{false, true} {
		t.Run(map[bool]string{false: "tagged when made", true: "tagged later"}[untagged], func(t *testing.T) { additionalNetworks(t, untagged) })
	}
}

func additionalNetworks(t *testing.T, untagged bool) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.untagged = untagged
	f.strict = true
	f.lan(thing{"id": lanID, "project_id": f.project, "port_security_enabled": untagged}, thing{})
	f.add("security-groups", thing{"name": "web", "security_group_rules": []any{}})
	before := f.listing()
	doc.Spec.Workers[0].Machine.SecurityGroups = []string{"web"} // which ports in a network without port security do not take
	doc.Spec.Workers[0].Machine.Networks = []v1alpha1.MachineNetwork{{Network: "lan", Subnet: "sub4"}, {Network: lanID}}
	siteApply(t, f, doc)
	for _, o := range f.kinds["ports"] {
		if !slices.Contains(o["tags"].([]any), any("naupegos-cluster=t3-life-0badc0de")) {
			t.Errorf("port %s has tags %v", o.str("name"), o["tags"])
		}
	}
	for _, s := range f.kinds["servers"] {
		var names []string
		for _, n := range s["networks"].([]any) {
			names = append(names, f.get("ports", n.(map[string]any)["port"].(string)).str("name"))
		}
		want := []string{s.str("name")}
		if s.str("name") == "t3-life-w-1" {
			want = append(want, "t3-life-0badc0de.nic.t3-life-w-1.1", "t3-life-0badc0de.nic.t3-life-w-1.2")
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has ports %v, want %v", s.str("name"), names, want)
		}
	}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range inv.Machines {
		if m.Name == "t3-life-w-1" {
			if err := execute(t.Context(), "remove", []*plan.Step{p.DestroyMachine(m)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(nicsOf(p, "t3-life-w-1")); n != 0 {
		t.Errorf("%d additional ports are left of a machine that is gone", n)
	}
	siteApply(t, f, doc)
	siteGone(t, f, doc, before)
}

// TestDataVolumes: volumes come with the machine, are added and grow in place, go only with consent, and do not shrink.
func TestDataVolumes(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	before := f.listing()
	shape := &doc.Spec.Workers[0].Machine
	sizes := func() map[string]int {
		out := map[string]int{}
		for _, v := range f.kinds["volumes"] {
			if at, _ := v["attachments"].([]any); len(at) > 0 {
				n, _ := v["size"].(float64)
				out[v.str("name")] = int(n)
			}
		}
		return out
	}
	for _, c := range []struct {
		volumes []v1alpha1.MachineVolume
		want    map[string]int
	}{
		{[]v1alpha1.MachineVolume{{Name: "data", SizeGiB: 2, Type: "fast"}}, map[string]int{"t3-life-w-1-data": 2}},
		{[]v1alpha1.MachineVolume{{Name: "data", SizeGiB: 5, Type: "fast"}, {Name: "log", SizeGiB: 1}}, map[string]int{"t3-life-w-1-data": 5, "t3-life-w-1-log": 1}},
	} {
		shape.Volumes = c.volumes
		siteApply(t, f, doc)
		if have := sizes(); !maps.Equal(have, c.want) {
			t.Errorf("volumes are %v, want %v", have, c.want)
		}
	}
	servers := len(f.kinds["servers"])
	shape.Volumes = []v1alpha1.MachineVolume{{Name: "data", SizeGiB: 4}}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Steps(t.Context(), wanted(doc), inv); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "can't shrink to 4") {
		t.Errorf("a smaller volume: %v", err)
	}
	shape.Volumes[0].SizeGiB = 5
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err == nil || len(sizes()) != 2 {
		t.Errorf("without consent: %v, %v", err, sizes())
	}
	for _, m := range inv.Machines {
		loses := m.Name == "t3-life-w-1"
		if s := p.DestroyMachine(m); (len(s.Details) == 2) != loses || (s.Consent == provider.ConsentVolumes) != loses {
			t.Errorf("%s: %v, consent %q", m.Name, s.Details, s.Consent)
		}
	}
	for _, s := range p.Destroy(t.Context(), inv) { // the user agrees to lose everything
		if s.ID == provider.DestroyStep("t3-life-w-1") && (len(s.Details) != 2 || s.Consent != "") {
			t.Errorf("the cluster's end: %v, consent %q", s.Details, s.Consent)
		}
	}
	siteApply(t, f, doc, provider.ConsentVolumes)
	if have := sizes(); !maps.Equal(have, map[string]int{"t3-life-w-1-data": 5}) || len(f.kinds["servers"]) != servers {
		t.Errorf("with consent: %v, %d servers", have, len(f.kinds["servers"]))
	}
	siteGone(t, f, doc, before)
}

// TestFloatingSubnetAndClasses: floating IPs come from the named subnet, and the cloud's controllers get it and the classes by ID.
func TestFloatingSubnetAndClasses(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	public := f.kinds["networks"][0].str("id")
	subnet := f.add("subnets", thing{"name": "floats", "network_id": public, "ip_version": 4}).str("id")
	os := doc.Spec.Provider.OpenStack
	os.FloatingSubnet = "floats"
	os.LoadBalancerClasses = []v1alpha1.LoadBalancerClass{{Name: "dmz", FloatingNetwork: "public", FloatingSubnetTags: []string{"x"}}, {Name: "hidden", FloatingSubnet: lanID}}
	before := f.listing()
	p := fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if have := f.kinds["floatingips"][0].str("subnet_id"); have != subnet {
		t.Errorf("the floating IP is of subnet %q", have)
	}
	info, err := p.CloudInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.FloatingSubnetID != subnet || len(info.BalancerClasses) != 2 || info.BalancerClasses[0].FloatingNetworkID != public || info.BalancerClasses[1].FloatingSubnetID != lanID {
		t.Errorf("%+v", info)
	}
	siteGone(t, f, doc, before)
}
