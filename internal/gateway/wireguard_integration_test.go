//go:build integration

package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// tunnelTimeout bounds each wait for a packet; WireGuard retries a handshake after five seconds.
const tunnelTimeout = 20 * time.Second

// TestWireGuardTunnel applies the configurations of a gateway and of a client with wg-quick itself, and sends packets from the client to a
// machine behind the gateway: first with the peer, then without it, then with the peer under another key.
func TestWireGuardTunnel(t *testing.T) {
	l := newWireGuardLab(t)
	w, client := wireGuard(), wireGuardClient()
	private, public := pair(t)
	w.PrivateKey, client.GatewayKey = pair(t)
	client.PrivateKey, w.Peers[0].PublicKey = private, public
	w.Reach, client.Reach = []string{"10.77.0.0/24"}, []string{"10.77.0.0/24", "10.78.0.0/24", "172.30.153.1/32"}
	client.Endpoint = "198.51.100.2"

	l.gateway(w)
	l.up("gw", l.conf)
	conf := l.write("nauwg-anna.conf", client.Config())
	l.up("client", conf)

	if from, err := l.ask("10.77.0.11"); err != nil || from != "10.77.0.2" {
		t.Fatalf("the machine was reached from %q (%v), want the gateway's own address", from, err)
	}
	if _, err := l.askOnce("10.78.0.11", time.Second); err == nil {
		t.Error("peers reached an address outside of their networks")
	}

	w.Peers = w.Peers[1:]
	l.gateway(w)
	l.reload()
	if _, err := l.askOnce("10.77.0.11", 2*time.Second); err == nil {
		t.Error("a removed peer still reaches the machine")
	}

	w.Peers = append(w.Peers, WireGuardPeer{Name: "anna", Address: "172.30.153.3"})
	client.PrivateKey, w.Peers[1].PublicKey = pair(t)
	l.gateway(w)
	l.reload()
	l.down("client", conf)
	l.write("nauwg-anna.conf", client.Config())
	l.up("client", conf)
	if from, err := l.ask("10.77.0.11"); err != nil || from != "10.77.0.2" {
		t.Errorf("after a change of keys: reached from %q (%v)", from, err)
	}
}

// TestWireGuardParsers checks the rendered files, and files with an error, with wg and nft.
func TestWireGuardParsers(t *testing.T) {
	l := newWireGuardLab(t)
	c, err := WireGuardConfig(wireGuard())
	if err != nil {
		t.Fatal(err)
	}
	client := wireGuardClient()
	for name, text := range map[string][]byte{"wgserver": content(t, c, WireGuardPath), "wgclient": client.Config()} {
		path := l.write(name+".conf", text)
		stripped, err := exec.Command("wg-quick", "strip", path).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plain := l.write(name+".plain", stripped)
		l.ns("client", "wireguard-go", name)
		l.ns("client", "wg", "setconf", name, plain)
		bad := l.write(name+".bad", []byte(strings.Replace(string(stripped), "PublicKey", "PubicKey", 1)))
		if out, err := l.try("client", "wg", "setconf", name, bad); err == nil {
			t.Errorf("%s: wg accepts anything: %s", name, out)
		}
		l.ns("client", "ip", "link", "del", name)
	}
	rules := l.write("rules.nft", content(t, c, WireGuardRules))
	l.ns("client", "nft", "-f", rules)
	l.ns("client", "nft", "-f", rules) // loading it twice is harmless
	if out := l.ns("client", "nft", "list", "ruleset"); strings.Count(out, "masquerade") != 1 {
		t.Errorf("after loading twice:\n%s", out)
	}
	unit := l.write(WireGuardUnit, []byte(c.Units[0].Content))
	if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "naupegos-wireguard") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// wireGuardLab is an outside client, a gateway, and an inside machine that answers with the address of its client.
type wireGuardLab struct {
	*lab
	tools string
	conf  string // the gateway's
}

func newWireGuardLab(t *testing.T) *wireGuardLab {
	t.Helper()
	for _, tool := range []string{"wg", "wg-quick", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: apt-get install wireguard-tools nftables", tool)
		}
	}
	l := &wireGuardLab{lab: newLab(t), tools: t.TempDir()}
	testkit.Must(t, testkit.Required("", filepath.Join(l.tools, "wireguard-go"), "golang.zx2c4.com/wireguard"))
	l.machine("client", "198.51.100.9")
	l.machine("gw", "10.77.0.2")
	l.lab.ip("-n", l.prefix+"gw", "addr", "add", "198.51.100.2/24", "dev", "eth0")
	l.ns("gw", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	l.machine("inside", "10.77.0.11")
	l.lab.ip("-n", l.prefix+"inside", "addr", "add", "10.78.0.11/24", "dev", "eth0")
	l.lab.ip("-n", l.prefix+"gw", "addr", "add", "10.78.0.2/24", "dev", "eth0")
	l.serve()
	return l
}

// serve answers each inside connection with its source address.
func (l *wireGuardLab) serve() {
	var ln net.Listener
	if err := l.in("inside", func() (err error) { ln, err = net.Listen("tcp", ":7000"); return err }); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // the source address of a connection
			fmt.Fprint(c, host)
			c.Close()
		}
	}()
}

// ask connects from the client until it gets an answer, and returns the source address that the machine saw.
func (l *wireGuardLab) ask(address string) (from string, err error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), tunnelTimeout)
	defer cancel()
	for {
		if from, err = l.askOnce(address, time.Second); err == nil || ctx.Err() != nil {
			return from, err
		}
	}
}

func (l *wireGuardLab) askOnce(address string, d time.Duration) (from string, err error) {
	err = l.in("client", func() error {
		c, err := net.DialTimeout("tcp", address+":7000", d)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(d)); err != nil {
			return err
		}
		b, err := io.ReadAll(c)
		from = string(b)
		return err
	})
	return from, err
}

// gateway renders w and writes its files to the lab's own paths.
func (l *wireGuardLab) gateway(w WireGuard) {
	l.t.Helper()
	c, err := WireGuardConfig(w)
	if err != nil {
		l.t.Fatal(err)
	}
	rules := l.write("wg-naupegos.nft", content(l.t, c, WireGuardRules))
	l.conf = l.write("wg-naupegos.conf", []byte(strings.ReplaceAll(string(content(l.t, c, WireGuardPath)), WireGuardRules, rules)))
}

// reload runs the commands of the unit's ExecReload lines with the lab's paths.
func (l *wireGuardLab) reload() {
	l.t.Helper()
	c, err := WireGuardConfig(wireGuard())
	if err != nil {
		l.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(c.Units[0].Content) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecReload=")
		if !ok {
			continue
		}
		n++
		command = strings.ReplaceAll(command, "/usr/bin/wg-quick strip "+WireGuardLink, "/usr/bin/wg-quick strip "+l.conf)
		l.ns("gw", "/bin/bash", "-c", strings.ReplaceAll(command, WireGuardRules, filepath.Join(l.dir, "wg-naupegos.nft")))
	}
	if n != 2 {
		l.t.Fatalf("%d ExecReload lines", n)
	}
}

func (l *wireGuardLab) up(name, conf string) {
	l.t.Helper()
	l.ns(name, "wg-quick", "up", conf)
	l.t.Cleanup(func() { l.down(name, conf) })
}

func (l *wireGuardLab) down(name, conf string) {
	l.t.Helper()
	if out, err := l.try(name, "wg-quick", "down", conf); err != nil && !strings.Contains(out, "is not a WireGuard interface") {
		l.t.Errorf("wg-quick down: %v: %s", err, out)
	}
}

func (l *wireGuardLab) write(name string, data []byte) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// try runs a command in a namespace, with the lab's wireguard-go in its path.
func (l *wireGuardLab) try(name string, argv ...string) (string, error) {
	cmd := exec.Command("ip", append([]string{"netns", "exec", l.prefix + name}, argv...)...)
	cmd.Env = append(os.Environ(), "PATH="+l.tools+":"+os.Getenv("PATH"), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ns is try that must succeed.
func (l *wireGuardLab) ns(name string, argv ...string) string {
	l.t.Helper()
	out, err := l.try(name, argv...)
	if err != nil {
		l.t.Fatalf("%s: %s: %v: %s", name, strings.Join(argv, " "), err, out)
	}
	return out
}

// pair makes a private and a public key.
func pair(t *testing.T) (private, public string) {
	t.Helper()
	private, err := NewWireGuardKey()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = WireGuardPublicKey(private); err != nil {
		t.Fatal(err)
	}
	return private, public
}
