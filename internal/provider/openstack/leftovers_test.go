package openstack

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
	"github.com/naupegos/naupegos/internal/testkit"
)

// csiCluster is the metadata key in which cinder-csi-plugin records a volume's cluster.
const csiCluster = "cinder.csi.openstack.org/cluster"

// leave adds to a cloud the resources that a cluster of that ID created for a Service and a claim, and similar foreign ones.
func (f *fakeCloud) leave(id string) {
	balancer := func(name, fip string, tags ...any) {
		port := f.add("ports", thing{"device_owner": "Octavia", "fixed_ips": []any{map[string]any{}}})
		f.add("loadbalancers", thing{"name": name, "provisioning_status": balancer.Active, "vip_port_id": port.str("id"), "tags": tags})
		f.add("floatingips", thing{"description": fip, "port_id": port.str("id")})
	}
	const made = "Floating IP for Kubernetes external service shop/front from cluster "
	balancer("kube_service_"+id+"_shop_front", made+id)
	balancer("kube_service_"+id+"_shop_given", "my own")
	balancer("kube_service_"+id+"0_shop_front", made+id+"0")
	balancer("company", "my own", "kube_service_"+id+"_shop_shared")
	balancer("kube_service_"+id+"_shop_lent", made+id, "kube_service_"+id+"_shop_lent", "kube_service_other_shop_lent")
	for name, cluster := range map[string]string{"pvc-1": id, "pvc-2": id + "0", "pvc-" + id: ""} {
		f.add("volumes", thing{"name": name, "status": "available", "metadata": map[string]any{csiCluster: cluster}})
	}
}

func (f *fakeCloud) names(kind, key string) string {
	var out []string
	for _, t := range f.kinds[kind] {
		out = append(out, t.str(key))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// freeLeftovers plans to remove the present leftovers.
func freeLeftovers(t *testing.T, p *Provider, keep bool) *plan.Step {
	t.Helper()
	seen, err := p.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.FreeLeftovers(seen, keep)
}

// TestFreeLeftovers: only resources that the cluster created and can no longer free are removed.
func TestFreeLeftovers(t *testing.T) {
	useFake(t)
	for _, keep := range []bool{false, true} {
		f, doc := newFakeCloud(), fakeDocument(t)
		p := fakeProvider(t, f, doc)
		f.leave(p.n.ID)
		if err := execute(t.Context(), "destroy", []*plan.Step{freeLeftovers(t, p, keep)}); err != nil {
			t.Fatal(err)
		}
		id := p.n.ID
		if got, want := f.names("loadbalancers", "name"), "company kube_service_"+id+"0_shop_front kube_service_"+id+"_shop_lent"; got != want {
			t.Errorf("load balancers %s are left, not %s", got, want)
		}
		if n := len(f.kinds["floatingips"]); n != 4 {
			t.Errorf("%d floating IPs are left, not 4: %s", n, f.names("floatingips", "description"))
		}
		want := "pvc-2 pvc-" + id
		if keep {
			want = "pvc-1 " + want
		}
		if got := f.names("volumes", "name"); got != want {
			t.Errorf("volumes %s are left, not %s", got, want)
		}
	}
}

// TestLeftoversThatStay: the error names resources that can't be removed, in the cloud's own words.
func TestLeftoversThatStay(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Delete = 10 * time.Millisecond })
	f.add("volumes", thing{"name": "pvc-1", "status": "in-use", "size": 3, "metadata": map[string]any{
		csiCluster: p.n.ID, "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop",
	}})
	testkit.Fails(t, execute(t.Context(), "destroy", []*plan.Step{freeLeftovers(t, p, false)}), fail.Refused,
		"volume pvc-1", "3 GiB, in-use) of claim shop/data", "Volume status must be available", "--keep-volumes")
}

// TestVolumesThatNobodyWasTold: a volume created after the plan stays, because the user did not consent to its removal; a load balancer is removed.
func TestVolumesThatNobodyWasTold(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc)
	claimed := func(name string) {
		f.add("volumes", thing{"name": name, "status": "available", "metadata": map[string]any{csiCluster: p.n.ID}})
	}
	claimed("pvc-1")
	s := freeLeftovers(t, p, false)
	claimed("pvc-2")
	port := f.add("ports", thing{"device_owner": "Octavia", "fixed_ips": []any{map[string]any{}}})
	f.add("loadbalancers", thing{"name": "kube_service_" + p.n.ID + "_shop_late", "provisioning_status": balancer.Active, "vip_port_id": port.str("id")})
	if err := execute(t.Context(), "destroy", []*plan.Step{s}); err != nil {
		t.Fatal(err)
	}
	if got := f.names("volumes", "name"); got != "pvc-2" {
		t.Errorf("volumes %q are left, not pvc-2", got)
	}
	if got := f.names("loadbalancers", "name"); got != "" {
		t.Errorf("load balancers %s are left", got)
	}
}

// TestVolumesOfStrangers: a volume attached to a foreign server stays, without a wait; a volume attached to one of the cluster's servers, or to a
// deleted one, is removed.
func TestVolumesOfStrangers(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Delete = 10 * time.Millisecond })
	attached := func(name, server string) {
		f.add("volumes", thing{
			"name": name, "status": "in-use", "metadata": map[string]any{csiCluster: p.n.ID}, "attachments": []any{map[string]any{"server_id": server}},
		})
	}
	stranger := f.add("servers", thing{"name": "database", "status": "ACTIVE", "metadata": map[string]any{}})
	attached("pvc-1", stranger.str("id"))
	left, err := p.Leftovers(t.Context())
	if err != nil || len(left.Volumes) != 1 || left.Volumes[0].Stranger != stranger.str("id") ||
		!strings.Contains(left.Volumes[0].String(), "attached to server "+stranger.str("id")+", which is not the cluster's") {
		t.Errorf("%v: %v", left.Volumes, err)
	}
	if err := execute(t.Context(), "destroy", []*plan.Step{p.FreeLeftovers(left, false)}); err != nil {
		t.Error(err)
	}
	if got := f.names("volumes", "status"); got != "in-use" {
		t.Errorf("the volume is %q", got)
	}
	own := f.add("servers", thing{"name": "t3-life-w-1", "status": "ACTIVE", "metadata": map[string]any{marks.Underscored(marks.KeyCluster): p.n.ID}})
	for _, server := range []string{own.str("id"), "gone"} {
		f.kinds["volumes"] = nil
		attached("pvc-2", server)
		testkit.Fails(t, execute(t.Context(), "destroy", []*plan.Step{freeLeftovers(t, p, false)}), fail.Refused, "volume pvc-2")
	}
}

// TestEachLeftoverHasItsTime: as long as one leftover after another disappears, all of them together may exceed the time limit of one.
func TestEachLeftoverHasItsTime(t *testing.T) {
	useFake(t)
	synctest.Test(t, func(t *testing.T) {
		f, doc := newFakeCloud(), fakeDocument(t)
		const each, volumes = 5 * time.Minute, 4
		p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Delete, o.Timeouts.Poll = each, 3*time.Second })
		for range volumes {
			f.add("volumes", thing{"name": "pvc", "status": "in-use", "metadata": map[string]any{csiCluster: p.n.ID}})
		}
		s, began, freed := freeLeftovers(t, p, false), time.Now(), time.Duration(0)
		f.fault = func(int, string) fault0 {
			if time.Since(began) > (freed+1)*each*9/10 && freed < volumes { // one is released after the other
				freed++
				f.kinds["volumes"][0]["status"] = "available"
			}
			return fault0{}
		}
		if err := execute(t.Context(), "destroy", []*plan.Step{s}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*each {
			t.Errorf("it took %s only", took)
		}
	})
}

// TestVolumes: the requested IDs, whatever created them, and the cluster's own volumes.
func TestVolumes(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc)
	f.leave(p.n.ID)
	id := ""
	for _, v := range f.kinds["volumes"] {
		if v.str("name") == "pvc-2" {
			id = v.str("id")
		}
	}
	found := testkit.Value(p.Volumes(t.Context(), []string{id, "gone"}))(t)
	own := map[string]bool{}
	for _, v := range found {
		own[v.Name] = v.Own
	}
	if len(found) != 2 || !own["pvc-1"] || own["pvc-2"] {
		t.Errorf("found are %v", found)
	}
}
