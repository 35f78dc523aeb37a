package cluster

import (
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// TestRecordedCgroupDriver: kubeadm records the cgroup driver of the first control-plane machine's kernel for all kubelets.
func TestRecordedCgroupDriver(t *testing.T) {
	doc := document(t, 3, 0, 1)
	l := newLab(t, doc).Running(doc)
	if err := l.LoadTarget(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine wanted.Slot
		version int
		want    int // of the first control-plane machine, whichever is asked
	}{
		{wanted.Slot{Name: "demo-cp-1", Role: provider.ControlPlane}, 2, 2},
		{wanted.Slot{Name: "demo-cp-2", Role: provider.ControlPlane}, 1, 2},
		{wanted.Slot{Name: "demo-a-1", Role: provider.Worker}, 1, 2},
		{wanted.Slot{Name: "demo-cp-1", Role: provider.ControlPlane}, 1, 1},
	} {
		if err := l.RememberFacts(t.Context(), c.machine, machine.Facts{CgroupVersion: c.version}); err != nil {
			t.Fatal(err)
		}
		p, err := l.KubeParams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := p.ControlPlanes[0].Facts.CgroupVersion; got != c.want {
			t.Errorf("after %s with cgroup v%d: the cluster's is v%d, want v%d", c.machine.Name, c.version, got, c.want)
		}
	}
}

// TestConfiguringWaitsForAReplacedMachine: configuring a machine waits, and does not fail, while another machine, whose address it needs, is
// being replaced.
func TestConfiguringWaitsForAReplacedMachine(t *testing.T) {
	doc := document(t, 3, 2, 1)
	l := newLab(t, doc).Running(doc)
	if err := l.LoadTarget(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(l.cloud.machines, "demo-cp-2")
	_, err := l.KubeParams(t.Context())
	if !fail.Waitable(err) {
		t.Errorf("node: %v", err)
	}
	if _, err = l.RenderGateway(t.Context(), wanted.Slot{Name: "demo-gw-1", Role: provider.Gateway}, machine.Facts{}); !fail.Waitable(err) {
		t.Errorf("gateway: %v", err)
	}
}
