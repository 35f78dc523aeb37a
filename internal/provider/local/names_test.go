package local

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
)

func TestNamesFitTheKernel(t *testing.T) {
	for _, id := range []string{"demo-1a2b3c4d", "x", "a-cluster-with-a-very-long-name-indeed-0badcafe"} {
		n := names{root: "/r", cluster: id, short: shortID(id)}
		for _, host := range []uint32{1, 0xfffe} {
			if l := n.link(host); len(l) != 15 || l[:11] != n.bridge() {
				t.Errorf("%s: link %q", id, l)
			}
		}
		long := n.nspawn("a-machine-name-of-sixty-three-characters-as-dns-allows-it-to-be-x")
		if len(long) > 64 || long == n.nspawn("a-machine-name-of-sixty-three-characters-as-dns-allows-it-to-be-y") {
			t.Errorf("machine name %q", long)
		}
	}
	if shortID("demo-1a2b3c4d") != "1a2b3c4d" || shortID("1a2b3c4d") != "1a2b3c4d" || len(shortID("demo")) != 8 {
		t.Error("shortID")
	}
}

func TestPlannedMachineGetsItsWish(t *testing.T) {
	p := newProvider(t, func(o *Options) { o.CIDR = "10.77.3.0/24" })
	want := provider.Wanted{Machines: []provider.MachineSpec{
		{Name: "a", Role: provider.Worker}, {Name: "b", Role: provider.Worker, Address: "10.77.3.102"}, {Name: "c", Role: provider.Worker},
	}}
	if err := p.planAddresses(want, netip.MustParsePrefix("10.77.3.0/24")); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"a": "10.77.3.101", "b": "10.77.3.102", "c": "10.77.3.103"} {
		if got := p.planned[name].ip(); got != addr {
			t.Errorf("%s: %s, want %s", name, got, addr)
		}
	}
}

func TestCloudImage(t *testing.T) {
	spec := provider.MachineSpec{Name: "a", Pool: "1b9e8a36-0000-4000-8000-000000000001", UserData: []byte("#cloud-config\n{}\n")}
	r := record{Cluster: "unit-1a2b3c4d", Name: "a", Address: "10.77.3.7/24", Gateway: "10.77.3.1"}
	for _, cloud := range []bool{false, true} {
		p := newProvider(t, func(o *Options) {
			o.CloudImage = cloud
			if cloud {
				o.InstanceID = func(s provider.MachineSpec) string { return s.Pool }
			}
		})
		files, err := p.firstFiles(r, spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		for path := range cloudImageFiles {
			if _, there := files[path]; there != cloud {
				t.Errorf("CloudImage %v: file %s is there: %v", cloud, path, there)
			}
		}
		if has := strings.Contains(string(files[seedDir+"/meta-data"].content), `instance-id: "`+spec.Pool+`"`); has != cloud {
			t.Errorf("CloudImage %v: meta-data: %s", cloud, files[seedDir+"/meta-data"].content)
		}
	}
}
