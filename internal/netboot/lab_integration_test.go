//go:build integration

package netboot_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

// run runs a program and returns its output.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// bridge creates a bridge with an address: the network of a rack.
func bridge(t *testing.T, name, address string) {
	t.Helper()
	// Otherwise other links of this host answer ARP for the address, too, and packets do not arrive over the bridge.
	testkit.Must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0o644))
	run(t, "ip", "link", "add", name, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
	run(t, "ip", "address", "add", address, "dev", name)
	run(t, "ip", "link", "set", name, "up")
	// A bridge without a port has no carrier.
	run(t, "ip", "link", "add", name+"-x", "type", "veth", "peer", "name", name+"-y")
	plug(t, name, name+"-x")
	run(t, "ip", "link", "set", name+"-y", "up")
}

// plug adds a link to a bridge.
func plug(t *testing.T, bridge, link string) {
	t.Helper()
	run(t, "ip", "link", "set", link, "master", bridge, "up")
}

// machine is a network namespace with one network card, eth0, in a bridge.
type machine struct{ name string }

func newMachine(t *testing.T, bridge, name string) machine {
	t.Helper()
	m := machine{fmt.Sprintf("netboot-%d-%s", os.Getpid(), name)}
	run(t, "ip", "netns", "add", m.name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", m.name).Run() })
	run(t, "ip", "link", "add", "v-"+name, "type", "veth", "peer", "name", "eth0", "netns", m.name)
	plug(t, bridge, "v-"+name)
	m.run(t, "ip", "link", "set", "eth0", "up")
	return m
}

func (m machine) command(argv ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", m.name}, argv...)...)
}

func (m machine) run(t *testing.T, argv ...string) string {
	t.Helper()
	return run(t, m.command(argv...).Args...)
}

// udhcpc requests an address with BusyBox, configures it, and returns the client's output.
func (m machine) udhcpc(t *testing.T, more ...string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "told")
	testkit.Must(t, os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nip address replace $ip/$mask dev $interface\nenv\n"), 0o755))
	return m.run(t, append([]string{"busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "10", "-T", "2", "-s", script, "-O", "tftp", "-O", "bootfile"}, more...)...)
}

// lab provides boot endpoints on a bridge and records their requests.
type lab struct {
	port uint16

	mu    sync.Mutex
	asked map[string]time.Time // method and URL of each request
	log   bytes.Buffer
}

// newLab serves HTTP on every address. All machines boot the default group.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{asked: map[string]time.Time{}}
	c := boot.NewCatalog()
	c.Replace(boot.Config{
		Groups:   map[string]boot.Group{"all": {ID: "all", Profile: "all"}},
		Profiles: map[string]boot.Profile{"all": {ID: "all", Boot: &boot.Kernel{Kernel: "/assets/kernel"}}},
	})
	listener := testkit.Value(net.Listen("tcp", "0.0.0.0:0"))(t)
	l.port = uint16(listener.Addr().(*net.TCPAddr).Port)
	h := boot.Handler(boot.Options{Catalogs: []*boot.Catalog{c}})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.asked[r.RequestURI] = time.Now()
		l.mu.Unlock()
		h.ServeHTTP(w, r)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", l.text())
		}
	})
	return l
}

// Write adds lines to the log.
func (l *lab) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

func (l *lab) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// serve runs a service until the test ends.
func (l *lab) serve(t *testing.T, cfg netboot.Config) *netboot.Service {
	t.Helper()
	cfg.HTTP, cfg.Log = l.port, slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := testkit.Value(netboot.New(t.Context(), cfg))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
	})
	return s
}

// requests returns the requests that begin with prefix.
func (l *lab) requests(prefix string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for r := range l.asked {
		if strings.HasPrefix(r, prefix) {
			all = append(all, r)
		}
	}
	return all
}

// udhcpd runs BusyBox's DHCP server on the machine until the test ends.
func (m machine) udhcpd(t *testing.T, first, last string) {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf("start %s\nend %s\ninterface eth0\nlease_file %s/leases\npidfile %s/pid\noption subnet 255.255.255.0\n", first, last, dir, dir)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "leases"), nil, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600))
	cmd := m.command("busybox", "udhcpd", "-f", filepath.Join(dir, "conf"))
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
