//go:build integration

package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestWireGuardOnMachine: the agent manages a gateway's WireGuard on a machine with systemd: installed, up, changed without taking the link down,
// moved to another address, and removed without a trace.
func TestWireGuardOnMachine(t *testing.T) {
	m := boot(t)
	private, err := gateway.NewWireGuardKey()
	testkit.Must(t, err)
	public, err := gateway.WireGuardPublicKey(private)
	testkit.Must(t, err)
	w := gateway.WireGuard{
		ClusterName: "demo", Gateway: "gw-1", Network: "172.30.153.0/24", Address: "172.30.153.1", Port: 51820, PrivateKey: private,
		Reach: []string{"10.77.0.0/24"}, Peers: []gateway.WireGuardPeer{{Name: "anna", Address: "172.30.153.3", PublicKey: m.peer()}},
	}
	m.wireGuard(w)
	if got := m.run("wg", "show", gateway.WireGuardLink, "public-key"); got != public {
		t.Errorf("public key %s, want %s", got, public)
	}
	m.wantPeers(w)
	if s := m.run("systemctl", "show", "--property=ActiveState,UnitFileState", gateway.WireGuardUnit); s != "ActiveState=active\nUnitFileState=enabled" {
		t.Errorf("the unit is %s", s)
	}
	if s := m.run("stat", "-c", "%a %U", gateway.WireGuardPath, "/etc/wireguard"); s != "600 root\n700 root" {
		t.Errorf("modes %s", s)
	}
	link := m.run("cat", "/sys/class/net/"+gateway.WireGuardLink+"/ifindex")

	w.Peers = append(w.Peers, gateway.WireGuardPeer{Name: "ben", Address: "172.30.153.4", PublicKey: m.peer()})
	w.Reach = append(w.Reach, "10.78.0.0/24")
	if did := m.wireGuard(w); !slices.Equal(did, []string{"reload " + gateway.WireGuardUnit}) {
		t.Errorf("a new peer: did %q", did)
	}
	m.wantPeers(w)
	if now := m.run("cat", "/sys/class/net/"+gateway.WireGuardLink+"/ifindex"); now != link {
		t.Errorf("the link was recreated: %s, then %s", link, now)
	}
	if rules := m.run("nft", "list", "ruleset"); strings.Count(rules, "10.78.0.0/24") != 1 || strings.Count(rules, "masquerade") != 1 {
		t.Errorf("rules:\n%s", rules)
	}
	if did := m.wireGuard(w); len(did) > 0 {
		t.Errorf("once more: did %q", did)
	}

	w.Peers, w.Address = w.Peers[1:], "172.30.153.2"
	if did := m.wireGuard(w); !slices.Contains(did, "restart "+gateway.WireGuardUnit) {
		t.Errorf("another address: did %q", did)
	}
	m.wantPeers(w)
	if a := m.run("ip", "-4", "-br", "addr", "show", gateway.WireGuardLink); !strings.Contains(a, "172.30.153.2/24") || strings.Contains(a, "153.1/24") {
		t.Errorf("addresses %s", a)
	}

	m.userspaceDies(w)

	m.apply(machine.Config{Machine: "gw-1"})
	if left := m.run("sh", "-c", "ip -br link show type tun; ip -br link | grep wg-; nft list tables | grep naupegos; ls /etc/wireguard; true"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// userspaceDies kills wireguard-go, if it runs, and waits until the link exists again.
func (m *realMachine) userspaceDies(w gateway.WireGuard) {
	m.Helper()
	pid := m.run("systemctl", "show", "--property=MainPID", "--value", gateway.WireGuardUnit)
	if pid == "0" {
		m.Log("the kernel has WireGuard: nothing to kill")
		return
	}
	m.run("kill", "-9", pid)
	// wg-quick fails while part of the former link exists, and is retried.
	m.run("timeout", "30", "sh", "-c", "until p=$(systemctl show --property=MainPID --value "+gateway.WireGuardUnit+") && [ $p != 0 ] && [ $p != "+pid+
		" ] && wg show "+gateway.WireGuardLink+" >/dev/null 2>&1; do sleep 0.2; done")
	m.wantPeers(w)
}

// wireGuard applies the configuration and returns the operations on units.
func (m *realMachine) wireGuard(w gateway.WireGuard) []string {
	m.Helper()
	c, err := gateway.WireGuardConfig(w)
	testkit.Must(m.T, err)
	var did []string
	for _, ch := range m.apply(c).Changes {
		if ch.Kind == "unit" {
			did = append(did, ch.Action+" "+ch.Name)
		}
	}
	return did
}

// wantPeers compares the link's peers with w's.
func (m *realMachine) wantPeers(w gateway.WireGuard) {
	m.Helper()
	var want []string
	for _, p := range w.Peers {
		want = append(want, p.PublicKey+"\t"+p.Address+"/32")
	}
	got := strings.Split(m.run("wg", "show", gateway.WireGuardLink, "allowed-ips"), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		m.Errorf("peers %q, want %q", got, want)
	}
}

// peer creates a peer's key.
func (m *realMachine) peer() string {
	m.Helper()
	private, err := gateway.NewWireGuardKey()
	testkit.Must(m.T, err)
	public, err := gateway.WireGuardPublicKey(private)
	testkit.Must(m.T, err)
	return public
}
