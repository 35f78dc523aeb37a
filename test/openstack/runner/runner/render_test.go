package runner

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/tool"
)

func exampleBalancers() []balancer {
	vip := netip.MustParseAddr("127.0.0.1")
	return []balancer{{
		ID: "lb-1", Name: "harbour", Network: "n1", VIP: vip,
		Listeners: []listener{
			{
				ID: "l1", Protocol: "TCP", Port: 6443, Limit: -1, Allowed: []string{"203.0.113.0/24", "10.1.0.0/24"},
				Client: time.Hour, Connect: 5 * time.Second, Member: time.Hour,
				Pool: &pool{
					ID: "p1", Protocol: "TCP", Method: "LEAST_CONNECTIONS",
					Monitor: &monitor{Type: "TLS-HELLO", Delay: 3 * time.Second, Timeout: 2 * time.Second, Up: 2, Down: 3},
					Members: []member{{ID: "m1", Address: "10.1.0.21", Port: 6443, Weight: 1}, {ID: "m2", Address: "10.1.0.22", Port: 6443, Weight: 5, Backup: true}},
				},
			},
			{
				ID: "l2", Protocol: "HTTP", Port: 8080, Limit: 100,
				Pool: &pool{
					ID: "p2", Protocol: "HTTP", Method: "ROUND_ROBIN", Persistence: "SOURCE_IP",
					Monitor: &monitor{Type: "HTTP", Delay: time.Second, Timeout: time.Second, Up: 1, Down: 1, Method: "GET", Path: "/healthz", Version: "1.1", Codes: "200-204", Domain: "a.example"},
					Members: []member{{ID: "m3", Address: "10.1.0.31", Port: 30080, Weight: 1, MonitorAddress: "10.1.0.32", MonitorPort: 10256}},
				},
			},
			{ID: "l3", Protocol: "HTTPS", Port: 8443, Pool: &pool{
				ID: "p3", Protocol: "PROXY", Method: "SOURCE_IP", Monitor: &monitor{Type: "TCP", Delay: time.Second, Timeout: time.Second},
				Members: []member{{ID: "m4", Address: "10.1.0.31", Port: 30443, Weight: 1}},
			}},
			{ID: "l4", Protocol: "TCP", Port: 9000},
			{ID: "l5", Protocol: "UDP", Port: 53},
			{ID: "l6", Protocol: "TCP", Port: 9001, Pool: &pool{ID: "p6", Method: "ODD", Persistence: "APP_COOKIE", Monitor: &monitor{Type: "PING"}}},
		},
	}}
}

func TestProxyConfig(t *testing.T) {
	text, problems := proxyConfig("/run/test.sock", exampleBalancers())
	testkit.Golden(t, "haproxy.cfg.golden", text)
	testkit.Golden(t, "problems.golden", strings.Join(problems, "\n")+"\n")
	if description(text) == "" {
		t.Error("the configuration does not contain its digest")
	}
	other := exampleBalancers()
	other[0].Listeners[0].Port++
	if again, _ := proxyConfig("/run/test.sock", other); description(again) == description(text) {
		t.Error("two configurations have the same digest")
	}
}

// TestProxyConfigIsHAProxys checks the configuration with HAProxy if it is installed. The integration test always does.
func TestProxyConfigIsHAProxys(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed")
	}
	text, _ := proxyConfig(filepath.Join(t.TempDir(), "s"), exampleBalancers())
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Run(t.Context(), nil, "haproxy", "-c", "-f", file); err != nil {
		t.Error(err)
	}
}

func exampleTranslation() string {
	addr := netip.MustParseAddr
	nets := []served{
		{Bridge: "nau0a0b0c0d", Prefix: netip.MustParsePrefix("10.1.0.0/24"), Proxy: netip.MustParseAddrPort("10.1.0.1:40000")},
		{Bridge: "nau1a1b1c1d", Prefix: netip.MustParsePrefix("10.2.0.0/24"), Proxy: netip.MustParseAddrPort("10.2.0.1:40001")},
	}
	floats := []floating{
		{Address: addr("198.51.100.10"), Fixed: addr("10.1.0.21")}, {Address: addr("198.51.100.11"), Fixed: addr("10.2.0.7")},
		{Address: addr("198.51.100.12"), Fixed: addr("10.3.0.7")}, // of a network that the runner does not serve
	}
	return translation("naupegos_os_test", nets, reachable(floats, nets))
}

func TestTranslation(t *testing.T) { testkit.Golden(t, "translation.nft.golden", exampleTranslation()) }

func TestVIPs(t *testing.T) {
	a, b := netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("10.1.0.8")
	all := []balancer{{Network: "x", VIP: a}, {Network: "y", VIP: b}, {Network: "x", VIP: a}, {Network: "x", VIP: b}}
	if d := cmp.Diff([]string{"10.1.0.7", "10.1.0.8"}, texts(vips(all, "x"))); d != "" {
		t.Error(d)
	}
}

func texts(as []netip.Addr) (out []string) {
	for _, a := range as {
		out = append(out, a.String())
	}
	return out
}
