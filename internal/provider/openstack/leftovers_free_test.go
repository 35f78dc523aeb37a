package openstack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// leave puts into a cloud what a cluster of that ID made for a Service and a claim, and what others have that looks like it.
func (f *fakeCloud) leave(id string) {
	balancer := func(name, fip string, tags ...any) {
		port := f.add("ports", thing{"device_owner": "Octavia", "fixed_ips": []any{map[string]any{}}})
		f.add("loadbalancers", thing{"name": name, "provisioning_status": lbActive, "vip_port_id": port.str("id"), "tags": tags})
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

// TestFreeLeftovers: what the cluster made and can't give back any more goes; nothing else does.
func TestFreeLeftovers(t *testing.T) {
	useFake(t)
	for _, keep := range []bool{false, true} {
		f, doc := newFakeCloud(), fakeDocument(t)
		p := fakeProvider(t, f, doc)
		f.leave(p.n.id)
		if err := execute(t.Context(), "destroy", []*plan.Step{p.FreeLeftovers(keep)}); err != nil {
			t.Fatal(err)
		}
		id := p.n.id
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

// TestLeftoversThatStay: the error names what can't be removed, in the cloud's own words.
func TestLeftoversThatStay(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Delete = 10 * time.Millisecond })
	f.add("volumes", thing{"name": "pvc-1", "status": "in-use", "size": 3, "metadata": map[string]any{
		csiCluster: p.n.id, "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop",
	}})
	failsWith(t, execute(t.Context(), "destroy", []*plan.Step{p.FreeLeftovers(false)}), fail.Refused,
		"volume pvc-1", "3 GiB, in-use) of claim shop/data", "Volume status must be available", "--keep-volumes")
}
