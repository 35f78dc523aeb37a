//go:build integration

package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// gatewayLab starts two gateways, three API servers and an impostor, and waits until the VIP answers.
type gatewayLab struct {
	*lab
	p          Params
	backends   map[string]*backend
	haproxy    map[string]*exec.Cmd
	keepalived map[string]*exec.Cmd
	relays     []*exec.Cmd   // on the API servers' machines
	worst      time.Duration // of the healthy VIP's answers so far
}

const vip = "10.77.0.10:6443"

func newGatewayLab(t *testing.T) *gatewayLab {
	l := newLab(t)
	g := &gatewayLab{lab: l, p: params(), backends: map[string]*backend{}, haproxy: map[string]*exec.Cmd{}, keepalived: map[string]*exec.Cmd{}}
	g.p.CACert = l.ca.PEM()
	g.p.Nodes = []Node{{Name: "gw1", Address: "10.77.0.2"}, {Name: "gw2", Address: "10.77.0.3"}}
	g.p.Backends = append(g.p.Backends, Backend{Name: "impostor", Address: "10.77.0.66", Port: 6443})
	l.machine("client", "10.77.0.99")
	for i, b := range g.p.Backends {
		name := "kubernetes.default.svc"
		if b.Name == "impostor" {
			name = "worker-1" // a certificate of the same authority, but not an API server's
		}
		g.p.Backends[i].Name = strings.TrimPrefix(b.Name, "demo-")
		g.backends[g.p.Backends[i].Name] = l.backend(g.p.Backends[i].Name, b.Address, name)
	}
	g.p.Relayed = true
	for _, b := range []string{"cp-1", "cp-2", "cp-3"} {
		g.relays = append(g.relays, l.process(b, l.agent(), "gateway-relay", g.p.Nodes[0].Address, g.p.Nodes[1].Address))
	}
	for _, n := range g.p.Nodes {
		l.machine(n.Name, n.Address)
		g.start(n)
	}
	return g
}

// start runs the rendered files on a gateway, with its own paths where two gateways on one host would collide.
func (g *gatewayLab) start(n Node) {
	t := g.t
	c, err := Config(g.p, n)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(g.dir, n.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer(CAPath, filepath.Join(dir, "ca.crt"), CheckPath, filepath.Join(dir, "check-backends"), "/run/naupegos-haproxy.sock", filepath.Join(dir, "haproxy.sock"))
	for path, name := range map[string]string{CAPath: "ca.crt", HAProxyPath: "haproxy.cfg", KeepalivedPath: "keepalived.conf", CheckPath: "check-backends"} {
		mode := os.FileMode(0o644)
		if path == CheckPath {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(replace.Replace(string(content(t, c, path)))), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range []string{"keepalived.pid", "vrrp.pid"} { // like a reboot, or the unit
		if err := os.Remove(filepath.Join(dir, pid)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	g.haproxy[n.Name] = g.process(n.Name, "haproxy", "-W", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	g.keepalived[n.Name] = g.process(n.Name, "keepalived", "--dont-fork", "--log-console", "--vrrp", "-f", filepath.Join(dir, "keepalived.conf"),
		"--pid="+filepath.Join(dir, "keepalived.pid"), "--vrrp_pid="+filepath.Join(dir, "vrrp.pid"))
}

// holder returns the gateway that has the VIP; "" if none or several have it.
func (g *gatewayLab) holder() string {
	var found []string
	for _, n := range g.p.Nodes {
		out, err := exec.Command("ip", "-n", g.prefix+n.Name, "-4", "addr", "show", "dev", "eth0").Output()
		if err == nil && strings.Contains(string(out), g.p.VIP+"/32") {
			found = append(found, n.Name)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// patience is the limit for events that take seconds on an idle host. Tests assert their actual times with pace.
const patience = time.Minute

func eventually(t *testing.T, what string, cond func() bool) time.Duration {
	t.Helper()
	return testkit.Until(t, patience, 20*time.Millisecond, testkit.That(what, cond))
}

// pace measures the slowest of some requests to the healthy VIP. A failover takes the time of its timers plus a few requests, and a busy host
// delays both.
func (g *gatewayLab) pace(t *testing.T) time.Duration {
	t.Helper()
	var worst time.Duration
	for range 20 {
		began := time.Now()
		if _, err := g.ask(vip, patience); err != nil {
			t.Fatalf("the healthy VIP: %v", err)
		}
		worst = max(worst, time.Since(began))
	}
	g.worst = max(g.worst, worst)
	return worst
}

// soon is eventually for events that a timer of the configuration controls: it waits for the timer plus some of the host's pace.
func (g *gatewayLab) soon(t *testing.T, timer time.Duration, what string, cond func() bool) {
	t.Helper()
	allowed := timer + 10*g.pace(t)
	took := eventually(t, what, cond)
	if t.Logf("%s after %s", what, took); took > allowed {
		t.Errorf("%s after %s, %s are allowed", what, took, allowed)
	}
}

func (g *gatewayLab) answers() bool {
	_, err := g.ask(vip, 500*time.Millisecond+2*g.worst) // requests without a destination only time out
	return err == nil
}

// reach opens a connection from the client and closes it.
func (g *gatewayLab) reach(address string, limit time.Duration) error {
	return g.in("client", func() error {
		conn, err := net.DialTimeout("tcp", address, limit)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// up reports which servers a gateway's HAProxy takes for healthy, by its own socket.
func (g *gatewayLab) up(gateway string) string {
	conn, err := net.DialTimeout("unix", filepath.Join(g.dir, gateway, "haproxy.sock"), time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("show stat\n")); err != nil {
		return err.Error()
	}
	raw := make([]byte, 1<<20)
	n := 0
	for {
		m, err := conn.Read(raw[n:])
		n += m
		if err != nil {
			break
		}
	}
	var up []string
	for line := range strings.Lines(string(raw[:n])) {
		f := strings.Split(line, ",")
		if len(f) > 17 && f[0] == "kube-apiserver" && f[1] != "BACKEND" && strings.HasPrefix(f[17], "UP") {
			up = append(up, f[1])
		}
	}
	return strings.Join(up, " ")
}

func TestGateways(t *testing.T) {
	g := newGatewayLab(t)
	t.Logf("the VIP answers %s after start", eventually(t, "the VIP answers", g.answers))
	eventually(t, "exactly the API servers are up, the impostor is not", func() bool {
		return g.up("gw1") == "cp-1 cp-2 cp-3" && g.up("gw2") == "cp-1 cp-2 cp-3"
	})
	eventually(t, "one gateway holds the VIP", func() bool { return g.holder() != "" })
	t.Run("slow servers stay", g.slowStays)
	t.Run("unready server is left out", g.unready)
	t.Run("server that goes down keeps its connections", g.leaving)
	t.Run("reload", g.reload)
	t.Run("API server's machine dies", g.serverDies)
	t.Run("gateways are cut off from each other", g.cutOff)
	t.Run("gateway dies", g.gatewayDies)
	t.Run("VIP stays without any backend", g.noBackends)
}

// slowStays: a slow /readyz, as on a busy host, does not close clients' connections.
func (g *gatewayLab) slowStays(t *testing.T) {
	for _, b := range g.backends {
		b.handshake.Store(int64(800 * time.Millisecond))
		b.answer.Store(int64(2 * time.Second))
		defer b.handshake.Store(0)
		defer b.answer.Store(0)
	}
	for start := time.Now(); time.Since(start) < 8*time.Second; time.Sleep(100 * time.Millisecond) {
		if up := g.up("gw1"); up != "cp-1 cp-2 cp-3" {
			t.Fatalf("servers that take 0.8 s for a handshake and 2 s for /readyz: only %q are up", up)
		}
	}
}

func (g *gatewayLab) unready(t *testing.T) {
	g.backends["cp-1"].ready.Store(false)
	g.soon(t, 5*time.Second, "cp-1 is left out", func() bool { return g.up("gw1") == "cp-2 cp-3" })
	g.backends["cp-1"].ready.Store(true)
	g.soon(t, 4*time.Second, "cp-1 is back", func() bool { return g.up("gw1") == "cp-1 cp-2 cp-3" })
}

// leaving: a server that reports its shutdown gets no new connections and keeps the existing ones. A server that is not ready for another reason
// loses its connections, because other servers can take over.
func (g *gatewayLab) leaving(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dialled := 0
	held := &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		dialled++
		err = g.in("client", func() (err error) { conn, err = (&net.Dialer{}).DialContext(ctx, network, vip); return err })
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, g.clientTLS()), nil
	}}
	defer held.CloseIdleConnections()
	server := testkit.Value(name(ctx, held))(t)
	b, others := g.backends[server], strings.TrimSpace(strings.ReplaceAll("cp-1 cp-2 cp-3 ", server+" ", ""))
	b.leaving.Store(true)
	g.soon(t, 2*time.Second, server+" is left out", func() bool { return g.up("gw1") == others && g.up("gw2") == others })
	for start := time.Now(); time.Since(start) < 4*time.Second; { // longer than a server needs to count as dead
		if now, err := name(ctx, held); err != nil || now != server || dialled > 1 {
			t.Fatalf("%s, which is going down, has lost a connection after %s: %q, %v", server, time.Since(start), now, err)
		}
		if got, err := g.ask(vip, patience); err != nil || got == server {
			t.Fatalf("a new connection, after %s: %q, %v", time.Since(start), got, err)
		}
	}
	b.leaving.Store(false)
	eventually(t, server+" is back", func() bool { return g.up("gw1") == "cp-1 cp-2 cp-3" && g.up("gw2") == "cp-1 cp-2 cp-3" })
	b.ready.Store(false)
	eventually(t, "the connection to a server that is unready ends", func() bool {
		now, err := name(ctx, held)
		return dialled > 1 && err == nil && now != server
	})
	b.ready.Store(true)
	eventually(t, server+" is back", func() bool { return g.up("gw1") == "cp-1 cp-2 cp-3" && g.up("gw2") == "cp-1 cp-2 cp-3" })
}

// reload: a change of the configuration costs no connection, neither a held one nor a new one. The one exception: a server that
// answers but must not (the impostor here) counts as up for the milliseconds until its first check.
func (g *gatewayLab) reload(t *testing.T) {
	holder := g.holder()
	var held net.Conn
	if err := g.in("client", func() (err error) { held, err = net.DialTimeout("tcp", vip, time.Second); return err }); err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	asked, strayed, lost, pace := 0, 0, 0, g.pace(t)
	for start, reloads := time.Now(), 0; time.Since(start) < 4*time.Second; asked++ {
		if time.Since(start) > time.Duration(reloads)*time.Second {
			reloads++
			if err := g.haproxy[holder].Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.ask(vip, 2*time.Second+10*pace); err != nil {
			if strings.Contains(err.Error(), "valid for worker-1") {
				strayed++
				continue
			}
			lost++
			t.Logf("%s after the first reload: %v", time.Since(start), err)
		}
	}
	t.Logf("%d new connections during 4 reloads, %d of them to the impostor, %d lost", asked, strayed, lost)
	// On a quiet machine none is lost; on an overloaded one, one of 424 was.
	if strayed > 20 || lost > 1+asked/100 {
		t.Errorf("too many connections went astray or were lost")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.request(ctx, tls.Client(held, g.clientTLS())); err != nil {
		t.Errorf("a held connection did not outlive the reloads: %v", err)
	}
	eventually(t, "health is known again", func() bool { return g.up(holder) == "cp-1 cp-2 cp-3" })
}

// serverDies: new connections reach another server at once, and existing ones are closed so that clients notice.
func (g *gatewayLab) serverDies(t *testing.T) {
	var held []net.Conn
	for range 6 {
		var conn net.Conn
		if err := g.in("client", func() (err error) { conn, err = net.DialTimeout("tcp", vip, time.Second); return err }); err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	pace := g.pace(t)
	hangups := make(chan time.Duration, len(held))
	g.cable("cp-1", "down")
	defer g.cable("cp-1", "up")
	start := time.Now()
	for _, conn := range held {
		_ = conn.SetReadDeadline(start.Add(6*time.Second + 5*pace))
		go func() {
			if _, err := conn.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
				hangups <- time.Since(start)
			}
			conn.Close()
		}()
	}
	failed, worst := 0, time.Duration(0)
	for time.Since(start) < 5*time.Second+4*pace {
		one := time.Now()
		if _, err := g.ask(vip, 5*time.Second+4*pace); err != nil {
			failed++
			t.Logf("%s after the death: %v", one.Sub(start), err)
		}
		worst = max(worst, time.Since(one))
	}
	t.Logf("new connections: %d failed, the slowest took %s, where the slowest took %s before", failed, worst, pace)
	if failed > 1 || worst > 3*time.Second+4*pace { // the one that waits for the dead server when its death is detected may be lost
		t.Errorf("a dead server must cost new connections a moment at most")
	}
	time.Sleep(time.Until(start.Add(6*time.Second + 5*pace)))
	closed := len(hangups)
	for range closed {
		t.Logf("a held connection was closed after %s", <-hangups)
	}
	if closed < 1 || closed > 3 { // two, if no other connection was open
		t.Errorf("of six connections those with the dead server should be closed, no others: %d were", closed)
	}
}

// cutOff: gateways that reach all machines but each other keep one holder of the VIP, whether or not an API server answers, and no client notices.
// Without a relay each takes the VIP.
func (g *gatewayLab) cutOff(t *testing.T) {
	cut := func(state string) {
		for _, n := range g.p.Nodes {
			g.ip("-n", g.prefix+"hub", "link", "set", n.Name, "type", "bridge_slave", "isolated", state)
		}
	}
	before, pace := g.holder(), g.pace(t)
	g.ownAddressesOnly()
	cut("on")
	defer cut("off")
	lasts := 15 * time.Second
	if testkit.Full() {
		lasts = time.Minute
	}
	asked := 0
	for start := time.Now(); time.Since(start) < lasts; asked++ {
		if _, err := g.ask(vip, 3*time.Second+10*pace); err != nil {
			t.Errorf("%s after the cut: %v", time.Since(start), err)
		}
		if h := g.holder(); h != before {
			t.Fatalf("%s after the cut %q holds the VIP, before it was %s", time.Since(start), h, before)
		}
	}
	t.Logf("%d requests in %s, none failed; one holder", asked, lasts)
	for _, b := range g.backends {
		b.ready.Store(false)
	}
	for start := time.Now(); time.Since(start) < lasts; time.Sleep(50 * time.Millisecond) {
		if h := g.holder(); h == "" {
			t.Fatal("without an API server the VIP is nowhere, or twice")
		}
		if err := g.reach(vip, 3*time.Second+10*pace); err != nil {
			t.Fatalf("without an API server the VIP is out of reach after %s: %v", time.Since(start), err)
		}
	}
	for _, b := range g.backends {
		b.ready.Store(true)
	}
	eventually(t, "the VIP answers", g.answers)
	for _, r := range g.relays {
		kill(r)
	}
	eventually(t, "without a relay both hold the VIP, as this test would see", func() bool { return g.holder() == "" })
	cut("off")
	eventually(t, "one gives way", func() bool { return g.holder() != "" && g.answers() })
}

// ownAddressesOnly makes the network drop packets with another machine's address, as the ports of OpenStack do, until the test ends.
func (g *gatewayLab) ownAddressesOnly() {
	rules := "add table bridge ports\nadd chain bridge ports forward { type filter hook forward priority 0; }\n"
	for _, b := range g.p.Backends {
		rules += fmt.Sprintf("add rule bridge ports forward iifname %q ip saddr != %s drop\n", b.Name, b.Address)
	}
	for _, n := range g.p.Nodes {
		rules += fmt.Sprintf("add rule bridge ports forward iifname %q ip saddr != { %s, %s } drop\n", n.Name, n.Address, g.p.VIP)
	}
	nft := exec.Command("ip", "netns", "exec", g.prefix+"hub", "nft", "-f", "-")
	nft.Stdin = strings.NewReader(rules)
	if out, err := nft.CombinedOutput(); err != nil {
		g.t.Fatalf("nft: %v: %s", err, out)
	}
}

func (g *gatewayLab) gatewayDies(t *testing.T) {
	for round := range 3 {
		eventually(t, "one gateway holds the VIP", func() bool { return g.holder() != "" })
		victim, pace := g.holder(), g.pace(t)
		g.cable(victim, "down")
		kill(g.keepalived[victim])
		kill(g.haproxy[victim])
		took := eventually(t, "the VIP answers again", g.answers)
		t.Logf("round %d: %s died; the VIP answered again after %s, where the slowest answer took %s before", round+1, victim, took, pace)
		if allowed := 3*time.Second + 10*pace; took >= allowed {
			t.Errorf("failover took %s, %s are allowed", took, allowed)
		}
		survivor := other(g.p.Nodes, victim)
		g.ip("-n", g.prefix+victim, "addr", "flush", "dev", "eth0", "to", g.p.VIP) // like a reboot
		g.cable(victim, "up")
		g.start(node(g.p.Nodes, victim))
		for start := time.Now(); time.Since(start) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
			if _, err := g.ask(vip, time.Second+10*pace); err != nil {
				t.Fatalf("a gateway came back and disturbed the VIP: %v", err)
			}
		}
		if h := g.holder(); h != survivor {
			t.Errorf("the VIP should stay with %s when %s comes back, it is with %q", survivor, victim, h)
		}
	}
}

func (g *gatewayLab) noBackends(t *testing.T) {
	for _, b := range g.backends {
		b.ready.Store(false)
	}
	before := g.holder()
	for start := time.Now(); time.Since(start) < 6*time.Second; time.Sleep(100 * time.Millisecond) {
		if g.holder() == "" {
			t.Fatal("the VIP is nowhere, or twice")
		}
	}
	t.Logf("VIP with %s before, with %s after", before, g.holder())
	// A gateway that alone reaches a server must win: disconnect the holder only from the backends.
	loser := g.holder()
	for _, b := range g.p.Backends {
		g.ip("-n", g.prefix+loser, "route", "add", "blackhole", b.Address+"/32")
	}
	for _, b := range g.backends {
		b.ready.Store(true)
	}
	took := eventually(t, "the gateway that reaches servers takes the VIP", func() bool { return g.holder() == other(g.p.Nodes, loser) && g.answers() })
	t.Logf("moved from %s, which reached no server, after %s", loser, took)
}

func node(nodes []Node, name string) Node {
	for _, n := range nodes {
		if n.Name == name {
			return n
		}
	}
	return Node{}
}

func other(nodes []Node, name string) string {
	for _, n := range nodes {
		if n.Name != name {
			return n.Name
		}
	}
	return ""
}
