package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// TestServerGroups: each kind of anti-affinity is Nova's policy of the server's group; without anti-affinity there is no group.
func TestServerGroups(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	doc.Spec.ControlPlane.Machine.AntiAffinity = v1alpha1.AntiAffinityHard
	doc.Spec.Workers = append(doc.Spec.Workers, doc.Spec.Workers[0])
	doc.Spec.Workers[1].Name, doc.Spec.Workers[1].Machine.AntiAffinity = "loose", v1alpha1.AntiAffinityNone
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	const id = "t3-life-0badc0de"
	policies, names := map[string]string{}, map[string]string{"": ""}
	for _, g := range f.kinds["os-server-groups"] {
		policies[g.str("name")], names[g.str("id")] = g.str("policy"), g.str("name")
	}
	for group, policy := range map[string]string{id + ".control-plane.hard": "anti-affinity", id + ".worker.w.soft": "soft-anti-affinity"} {
		if policies[group] != policy {
			t.Errorf("group %s has policy %q, want %q", group, policies[group], policy)
		}
	}
	if len(policies) != 2 {
		t.Errorf("groups are %v", policies)
	}
	groups := map[string]string{}
	for _, s := range f.kinds["servers"] {
		hints, _ := s["hints"].(map[string]any)
		group, _ := hints["group"].(string)
		groups[s.str("name")] = names[group]
	}
	for server, group := range map[string]string{"t3-life-cp-1": id + ".control-plane.hard", "t3-life-w-1": id + ".worker.w.soft", "t3-life-loose-1": ""} {
		if have, ok := groups[server]; !ok || have != group {
			t.Errorf("server %s is in group %q, want %q", server, have, group)
		}
	}
}

// TestConfigDrive: a server gets a config drive if its shape says so, and else the cloud's default.
func TestConfigDrive(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	doc.Spec.Workers[0].Machine.ConfigDrive = new(true)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	for _, s := range f.kinds["servers"] {
		if have, _ := s["config_drive"].(bool); have != (s.str("name") == "t3-life-w-1") {
			t.Errorf("%s is asked for with config_drive %v", s.str("name"), s["config_drive"])
		}
	}
}

// TestRootVolumeType: a volume is requested with its pool's type, if any; another type is drift.
func TestRootVolumeType(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	doc.Spec.Workers[0].Machine.RootVolumeType = "fast"
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	types := map[string]any{}
	for _, v := range f.kinds["volumes"] {
		types[v.str("name")] = v["volume_type"]
	}
	if len(types) != 2 || types["t3-life-w-1"] != "fast" || types["t3-life-cp-1"] != nil {
		t.Errorf("the volumes' types are %v", types)
	}
	doc.Spec.Workers[0].Machine.RootVolumeType = "faster"
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Drift(wanted(doc), inv); len(d) != 1 || !slices.Equal(d["t3-life-w-1"], []string{"type of the root volume is fast, faster is wanted"}) {
		t.Errorf("%q", d)
	}
}

// TestNameServers: the machines' subnet has those of the document, and another list is a step that carries them over.
func TestNameServers(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	network := &doc.Spec.Provider.OpenStack.Network
	for _, servers := range []string{"192.0.2.53", "192.0.2.54 192.0.2.53", "192.0.2.53 192.0.2.54", "192.0.2.55"} {
		network.DNSServers = strings.Fields(servers)
		p := fakeProvider(t, f, doc)
		inv, err := p.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		steps, err := p.Steps(t.Context(), wanted(doc), inv)
		if err != nil {
			t.Fatal(err)
		}
		if fresh := len(inv.Machines) == 0; !fresh && (len(steps) != 1 || !slices.Equal(steps[0].Details, []string{"name servers " + strings.Join(network.DNSServers, ", ")})) {
			t.Errorf("%s: the plan has %d steps, the first: %v", servers, len(steps), steps)
		}
		if err := execute(t.Context(), "apply", steps); err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, s := range f.kinds["subnets"][0]["dns_nameservers"].([]any) {
			have = append(have, s.(string))
		}
		if !slices.Equal(have, network.DNSServers) {
			t.Errorf("%s: the subnet has %v", servers, have)
		}
		nothingLeftToDo(t, f, doc)
	}
	network.DNSServers = nil // the cloud's own, whatever they are: set values stay
	nothingLeftToDo(t, f, doc)
}
