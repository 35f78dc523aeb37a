//go:build integration

package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/vrrp"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
)

// TestMain lets the test binary act as the agent that relays adverts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway-relay" {
		var gateways []netip.Addr
		for _, a := range os.Args[2:] {
			gateways = append(gateways, netip.MustParseAddr(a))
		}
		if err := vrrp.Relay(context.Background(), gateways, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lab is a separate network: one namespace contains a bridge, and every machine is a namespace with eth0 in the bridge.
type lab struct {
	t      *testing.T
	dir    string // root's alone, as keepalived requires for scripts
	prefix string // of the namespaces' names
	ca     *pkitest.Authority
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	for _, tool := range []string{"ip", "nft", "haproxy", "keepalived"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: apt-get install iproute2 nftables haproxy keepalived", tool)
		}
	}
	dir, err := os.MkdirTemp("/run", "naugw-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dir: dir, prefix: filepath.Base(dir) + "-", ca: pkitest.NewAuthority(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.agent(), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	l.namespace("hub")
	l.ip("-n", l.prefix+"hub", "link", "add", "br0", "type", "bridge")
	l.ip("-n", l.prefix+"hub", "link", "set", "br0", "up")
	return l
}

func (l *lab) agent() string { return filepath.Join(l.dir, "naupegos-agent") }

func (l *lab) ip(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (l *lab) namespace(name string) {
	l.ip("netns", "add", l.prefix+name)
	l.t.Cleanup(func() { l.ip("netns", "del", l.prefix+name) })
	l.ip("-n", l.prefix+name, "link", "set", "lo", "up")
}

// machine makes a namespace with an address on the bridge.
func (l *lab) machine(name, address string) {
	l.namespace(name)
	l.ip("-n", l.prefix+"hub", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", l.prefix+name)
	l.ip("-n", l.prefix+"hub", "link", "set", name, "master", "br0", "up")
	l.ip("-n", l.prefix+name, "addr", "add", address+"/24", "dev", "eth0")
	l.ip("-n", l.prefix+name, "link", "set", "eth0", "up")
}

// cable plugs or unplugs a machine's cable. The packets of an unplugged machine are lost, as if it had no power.
func (l *lab) cable(name, state string) { l.ip("-n", l.prefix+"hub", "link", "set", name, state) }

// in runs f on a thread inside a machine's namespace: sockets opened there stay there.
func (l *lab) in(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + l.prefix + name)
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// process runs a program inside a machine, and prints its output if the test fails.
func (l *lab) process(name string, argv ...string) *exec.Cmd {
	l.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", l.prefix + name}, argv...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, over := make(chan error), make(chan struct{})
	go func() { // its own thread, for the lifetime of the program: the thread's end would kill it
		runtime.LockOSThread()
		started <- cmd.Start()
		<-over
	}()
	if err := <-started; err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		kill(cmd)
		close(over)
		if l.t.Failed() {
			l.t.Logf("%s: %s:\n%s", name, filepath.Base(argv[0]), out.String())
		}
	})
	return cmd
}

// kill ends a program and its children at once.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// leaf returns a server's certificate for these names.
func (l *lab) leaf(names ...string) tls.Certificate {
	l.t.Helper()
	return l.ca.Certificate(pki.LeafSpec{CommonName: names[0], DNSNames: names, Server: true})
}

// backend replaces an API server: it answers with its name and its readiness.
type backend struct {
	ready     atomic.Bool
	leaving   atomic.Bool  // it reports its shutdown, as API servers do until they stop listening
	handshake atomic.Int64 // how long it takes, nanoseconds
	answer    atomic.Int64 // of /readyz, nanoseconds
}

// tls also delays handshakes: a busy server is slow at everything.
func (b *backend) tls(leaf tls.Certificate) *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		time.Sleep(time.Duration(b.handshake.Load()))
		return &leaf, nil
	}}
}

func (l *lab) backend(name, address string, certNames ...string) *backend {
	b := &backend{}
	b.ready.Store(true)
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(b.answer.Load()))
		switch {
		case b.leaving.Load():
			http.Error(w, "[+]ping ok\n[+]etcd ok\n[-]shutdown failed: reason withheld\nreadyz check failed", http.StatusInternalServerError)
		case b.ready.Load():
			io.WriteString(w, "ok")
		default:
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\n[+]shutdown ok\nreadyz check failed", http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/name", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) })
	l.machine(name, address)
	leaf := l.leaf(certNames...)
	err := l.in(name, func() error {
		ln, err := net.Listen("tcp", address+":6443")
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)} // the checks hang up
		l.t.Cleanup(func() { srv.Close() })
		go srv.Serve(tls.NewListener(ln, b.tls(leaf)))
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// ask opens a new connection from the machine "client" to address and returns which backend answered.
func (l *lab) ask(address string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var conn net.Conn
	err := l.in("client", func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", address)
		return err
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return l.request(ctx, tls.Client(conn, l.clientTLS()))
}

func (l *lab) clientTLS() *tls.Config {
	return &tls.Config{RootCAs: l.ca.Pool(), ServerName: "kubernetes.default.svc"}
}

func (l *lab) request(ctx context.Context, conn net.Conn) (string, error) {
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	return name(ctx, &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true})
}

// name asks a backend for its name.
func name(ctx context.Context, tr *http.Transport) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kubernetes.default.svc/name", nil)
	if err != nil {
		return "", err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}
