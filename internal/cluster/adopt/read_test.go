package adopt

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

const edKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"

// TestKnownByName: a host's key is found by its node's name where the address has none, as ssh NAME has pinned it.
func TestKnownByName(t *testing.T) {
	for text, found := range map[string]bool{
		"10.0.0.11 " + edKey: true, "cp1,cp1.corp.example " + edKey: true, "[cp1]:2222 " + edKey: true, "cp2 " + edKey: false, "": false,
	} {
		r := &Reader{way: Way{Port: 2222, Known: testkit.Value(remote.ParseKnown("known", []byte(text+"\n")))(t)}}
		h, err := r.host("cp1", "10.0.0.11")
		if !found {
			testkit.Fails(t, err, fail.Refused, "no SSH host key is known for 10.0.0.11:2222")
		} else if err != nil || len(h.HostKeys) != 1 || h.Address != "10.0.0.11" {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
	}
	r := &Reader{way: Way{Port: 22, Known: testkit.Value(remote.ParseKnown("known", []byte("@cert-authority cp* "+edKey+"\n")))(t)}}
	_, err := r.host("cp1", "10.0.0.11")
	testkit.Fails(t, err, fail.Refused, "@cert-authority")
}

// TestOwnersLabels: the document has what owners set, of Kubernetes' domains too, and nothing that Kubernetes or a cloud sets by itself.
func TestOwnersLabels(t *testing.T) {
	own := []string{"node-restriction.kubernetes.io/team", "node.kubernetes.io/exclude-from-external-load-balancers", "failure-domain.beta.kubernetes.io/zone", "scheduling.k8s.io/tier",
		"node-role.kubernetes.io/worker", "topology.kubernetes.io/zone", "example.org/rack"}
	others := []string{"kubernetes.io/hostname", "kubernetes.io/os", "beta.kubernetes.io/arch", "node.kubernetes.io/instance-type", "node-role.kubernetes.io/control-plane",
		"node.cilium.io/x", "naupegos.dev/x", "feature.node.kubernetes.io/cpu"}
	labels := map[string]string{}
	for _, l := range append(own[:len(own):len(own)], others...) {
		if l != "node-role.kubernetes.io/control-plane" {
			labels[l] = "x"
		}
	}
	check := func(what string, n kube.SurveyedNode, gone ...string) {
		t.Helper()
		got := given(n)
		for _, l := range own {
			want := true
			for _, g := range gone {
				want = want && g != l
			}
			if (got[l] != "") != want {
				t.Errorf("%s: %s is kept: %t", what, l, got[l] != "")
			}
		}
		for _, l := range others {
			if _, ok := got[l]; ok {
				t.Errorf("%s: %s is kept", what, l)
			}
		}
	}
	n := kube.SurveyedNode{}
	n.Labels = labels
	check("a worker", n)
	n.ProviderID = "openstack:///x"
	check("in a cloud", n, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
	n.ProviderID = ""
	labels["node-role.kubernetes.io/control-plane"] = ""
	check("a control-plane node", n, "node.kubernetes.io/exclude-from-external-load-balancers")
}
