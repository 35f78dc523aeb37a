//go:build integration

package bundle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
)

// The networks of TestNodeLocalDNS: a node with its pod, and a rule like kube-proxy's that leads queries to a server in place of cluster DNS.
const (
	theNode, thePod   = "naupegos-dns-n", "naupegos-dns-p"
	clusterDNS, cache = "10.96.0.10", "169.254.20.10"
	knownName         = "kubernetes.default.svc.cluster.local."
	ownName           = "naupegos-node." + knownName
)

// dnsHelper selects what the test's program does inside a network: "serve", "ask ADDRESS NAME TYPE" or "load SECONDS".
const dnsHelper = "NAUPEGOS_DNS_HELPER"

// TestNodeLocalDNS runs a node's cache with the real kernel: it takes over the queries to cluster DNS, releases them when it stops or is killed, and
// leaves nothing. The pod loses no query when it stops or starts, and at most two attempts when it is killed.
func TestNodeLocalDNS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it makes networks")
	}
	program := compiledProgram(t, catalogue.NodeLocalDNS)
	dnsNetworks(t)
	server := inNetwork(theNode, "serve")
	must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	until(t, "cluster DNS answers", func() error { return asks(thePod, clusterDNS, knownName, "A", "10.9.9.9") })
	corefile := filepath.Join(t.TempDir(), "Corefile")
	must(t, os.WriteFile(corefile, []byte("cluster.local in-addr.arpa ip6.arpa . {\n bind "+cache+" "+clusterDNS+"\n takeover "+knownName+" {\n cluster "+clusterDNS+"\n local "+cache+
		"\n }\n prometheus {$NODE_ADDRESS}:9253\n errors\n cache\n loop\n forward . 10.1.0.1:5353 {\n force_tcp\n }\n}\n"), 0o644))
	start := func() *exec.Cmd {
		c := exec.Command("ip", "netns", "exec", theNode, program, "-conf", corefile)
		c.Env = append(os.Environ(), "NODE_NAME=n1", "NODE_ADDRESS=10.1.0.1")
		c.Stdout, c.Stderr = t.Output(), t.Output()
		must(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill() })
		until(t, "the cache has taken the queries over", func() error {
			return errors.Join(asks(thePod, clusterDNS, ownName, "TXT", "n1"), asks(theNode, clusterDNS, ownName, "TXT", "n1"), asks(thePod, cache, knownName, "A", "10.9.9.9"))
		})
		return c
	}
	for signal, mayLose := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGKILL: 2} {
		load := inNetwork(thePod, "load 8")
		out := &strings.Builder{}
		load.Stdout, load.Stderr = out, out
		must(t, load.Start())
		c := start()
		must(t, c.Process.Signal(signal))
		_ = c.Wait() // ended by a signal
		if rules := run(t, "ip", "netns", "exec", theNode, "nft", "list", "ruleset"); strings.Contains(rules, "naupegos-dns") {
			t.Errorf("after %v, the table exists:\n%s", signal, rules)
		}
		for _, who := range []string{theNode, thePod} {
			until(t, "cluster DNS answers again", func() error { return asks(who, clusterDNS, knownName, "A", "10.9.9.9") })
			if asks(who, clusterDNS, ownName, "TXT", "n1") == nil {
				t.Errorf("after %v, the cache still answers", signal)
			}
		}
		if routes := run(t, "ip", "-n", theNode, "route", "show", "table", "local"); signal == syscall.SIGTERM && (strings.Contains(routes, clusterDNS) || strings.Contains(routes, cache)) {
			t.Errorf("routes are left:\n%s", routes)
		}
		must(t, load.Wait())
		var queries, lost int
		if _, err := fmt.Sscanf(strings.TrimSpace(out.String()[max(0, strings.LastIndex(out.String(), "load:")):]), "load: %d queries, %d lost", &queries, &lost); err != nil || queries < 50 || lost > mayLose {
			t.Errorf("%v: %d queries, %d attempts lost, want at most %d (%v): %s", signal, queries, lost, mayLose, err, out)
		}
		t.Logf("%v: %d queries, %d attempts lost", signal, queries, lost)
	}
}

// compiledProgram compiles the only program of a set of addons.
func compiledProgram(t *testing.T, set string) string {
	t.Helper()
	l, _ := theBundle(t)
	g, err := newGoTool(t.Context(), "")
	must(t, err)
	sets := catalogue.Sets()
	i := slices.IndexFunc(sets, func(s catalogue.Set) bool { return s.Name == set })
	made, _, err := l.compileAll(t.Context(), g, compiled(sets[i]), 1, &reporter{to: logTo(t)})
	must(t, err)
	return made[set].file
}

// dnsNetworks creates the networks and removes them afterwards.
func dnsNetworks(t *testing.T) {
	t.Helper()
	for _, n := range []string{theNode, thePod} {
		_ = exec.Command("ip", "netns", "del", n).Run() // of a killed test
		run(t, "ip", "netns", "add", n)
		t.Cleanup(func() { run(t, "ip", "netns", "del", n) })
		run(t, "ip", "-n", n, "link", "set", "lo", "up")
	}
	for _, c := range []string{
		"link add v0 netns " + theNode + " type veth peer name v0 netns " + thePod,
		"-n " + theNode + " addr add 10.1.0.1/24 dev v0", "-n " + thePod + " addr add 10.1.0.2/24 dev v0",
		"-n " + theNode + " link set v0 up", "-n " + thePod + " link set v0 up", "-n " + theNode + " route add default dev v0", "-n " + thePod + " route add default via 10.1.0.1",
	} {
		run(t, "ip", strings.Fields(c)...)
	}
	nft := exec.Command("ip", "netns", "exec", theNode, "nft", "-f", "-")
	rule := func(hook string) string {
		return " chain " + hook + " { type nat hook " + hook + " priority -100; ip daddr " + clusterDNS + " udp dport 53 dnat to 10.1.0.1:5353; }\n"
	}
	nft.Stdin = strings.NewReader("table ip proxy {\n" + rule("prerouting") + rule("output") + "}\n")
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("wait until %s: %v", what, err)
}

// inNetwork returns a command that runs this test's helper in a network.
func inNetwork(network, what string) *exec.Cmd {
	c := exec.Command("ip", "netns", "exec", network, os.Args[0], "-test.run=^TestDNSHelper$", "-test.v")
	c.Env = append(os.Environ(), dnsHelper+"="+what)
	return c
}

// asks returns an error unless a query from a network has an answer.
func asks(network, server, name, kind, want string) error {
	out, err := inNetwork(network, "ask "+server+" "+name+" "+kind).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "answer: "+want+"\n") {
		return fmt.Errorf("%s %s of %s at %s: %w: %s", kind, name, network, server, err, out)
	}
	return nil
}

// TestDNSHelper is not a test: other tests run it inside networks.
func TestDNSHelper(t *testing.T) {
	args := strings.Fields(os.Getenv(dnsHelper))
	switch {
	case len(args) == 0:
		return
	case args[0] == "serve":
		must(t, serveDNS(t.Context()))
	case args[0] == "ask":
		answer, err := askDNS(args[1], args[2], map[string]dnsmessage.Type{"A": dnsmessage.TypeA, "TXT": dnsmessage.TypeTXT}[args[3]], 2*time.Second)
		must(t, err)
		fmt.Println("answer: " + answer)
	case args[0] == "load":
		seconds, err := strconv.Atoi(args[1])
		must(t, err)
		n, lost := 0, 0
		for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			n++
			for range 5 {
				if _, err := askDNS(clusterDNS, knownName, dnsmessage.TypeA, 2*time.Second); err == nil {
					break
				}
				lost++
			}
		}
		fmt.Printf("load: %d queries, %d lost\n", n, lost)
	}
}

// askDNS sends one query by UDP and returns the first answer: an address or a text.
func askDNS(server, name string, kind dnsmessage.Type, wait time.Duration) (string, error) {
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	packed, err := q.Pack()
	if err != nil {
		return "", err
	}
	c, err := net.Dial("udp", net.JoinHostPort(server, "53"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if _, err := c.Write(packed); err != nil {
		return "", err
	}
	buffer := make([]byte, 4096)
	n, err := c.Read(buffer)
	if err != nil {
		return "", err
	}
	var m dnsmessage.Message
	if err := m.Unpack(buffer[:n]); err != nil || len(m.Answers) == 0 {
		return "", fmt.Errorf("%s: no answer (%w)", m.RCode, err)
	}
	switch b := m.Answers[0].Body.(type) {
	case *dnsmessage.AResource:
		return net.IP(b.A[:]).String(), nil
	case *dnsmessage.TXTResource:
		return b.TXT[0], nil
	}
	return "", errors.New("an answer of another type")
}

// serveDNS answers each query for an address with 10.9.9.9, and all others with "no such name", by UDP and TCP.
func serveDNS(ctx context.Context) error {
	udp, err := net.ListenPacket("udp", "10.1.0.1:5353")
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", "10.1.0.1:5353")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go serveTCP(c)
		}
	}()
	buffer := make([]byte, 4096)
	for ctx.Err() == nil {
		n, from, err := udp.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if a := reply(buffer[:n]); a != nil {
			if _, err := udp.WriteTo(a, from); err != nil {
				return err
			}
		}
	}
	return nil
}

func serveTCP(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		a := reply(query)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
			return
		}
	}
}

func reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Authoritative, m.RCode, m.Additionals = true, true, dnsmessage.RCodeNameError, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.RCode = dnsmessage.RCodeSuccess
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 30}, Body: &dnsmessage.AResource{A: [4]byte{10, 9, 9, 9}}}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}
