package filter

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func params(t *testing.T) Params {
	t.Helper()
	return Params{
		Machine: "cp-1", ControlPlane: true, VXLAN: true, Machines: testkit.Value(PeersOf([]string{"10.0.0.30", "10.0.0.4", "10.0.0.30"}))(t), Pods: "10.244.0.0/16",
		Admit: []string{"10.0.0.0/28", "192.0.2.0/24", "10.244.3.0/24"}, // one contains another
	}
}

func TestConfig(t *testing.T) {
	p := params(t)
	conf := testkit.Value(Config(p))(t)
	testkit.Golden(t, "control-plane.nft", conf.Files[0].Content)
	testkit.Golden(t, "filter.service", conf.Units[0].Content)
	p.ControlPlane, p.VXLAN, p.Admit, p.Metrics = false, false, nil, []int{9100}
	testkit.Golden(t, "worker-of-another-network.nft", testkit.Value(Config(p))(t).Files[0].Content)
}

// TestRefused: the rules contain only valid addresses and networks.
func TestRefused(t *testing.T) {
	for _, spoil := range []func(*Params){
		func(p *Params) { p.Pods = "everything" },
		func(p *Params) { p.Admit = []string{"fd00::/64"} },
	} {
		p := params(t)
		spoil(&p)
		_, err := Config(p)
		testkit.Fails(t, err, fail.Invalid, "packet filter")
	}
	for _, address := range []string{"10.0.0.1 }; drop", "fd00::1"} {
		_, err := PeersOf([]string{address})
		testkit.Fails(t, err, fail.Invalid, "packet filter")
	}
}
