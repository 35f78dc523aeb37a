//go:build integration

package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// servers is a set of real etcd processes on loopback, with TLS both ways.
type servers struct {
	t      *testing.T
	dir    string
	binary string
	tls    *tls.Config
	procs  map[string]*server
}

type server struct {
	name, client, peer string // URLs
	cmd                *exec.Cmd
	out                bytes.Buffer
}

func newServers(t *testing.T) *servers {
	t.Helper()
	binary := program(t, "etcd")
	if out, err := exec.Command(binary, "--version").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", binary, err, out)
	}
	s := &servers{t: t, dir: t.TempDir(), binary: binary, procs: map[string]*server{}}
	s.certificates()
	return s
}

// program finds etcd or one of its tools: next to the etcd that NAUPEGOS_ETCD names, or in a bundle of the library.
func program(t *testing.T, name string) string {
	t.Helper()
	if etcd := os.Getenv("NAUPEGOS_ETCD"); etcd != "" {
		return filepath.Join(filepath.Dir(etcd), name)
	}
	return bundletest.Program(t, bundletest.Any(t), name)
}

// certificates creates one authority and one certificate for all servers and clients.
func (s *servers) certificates() {
	ca := pkitest.NewAuthority(s.t)
	all := pki.LeafSpec{CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	pair := ca.Issue(all)
	s.write("ca.crt", ca.PEM())
	s.write("tls.crt", pair.CertPEM)
	s.write("tls.key", pair.KeyPEM)
	s.tls = &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Certificate(all)}}
}

func (s *servers) write(name string, content []byte) {
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// plan reserves addresses for a server that starts later.
func (s *servers) plan(name string) *server {
	free := func() string { return fmt.Sprintf("https://127.0.0.1:%d", testkit.FreePort(s.t)) }
	p := &server{name: name, client: free(), peer: free()}
	s.procs[name] = p
	return p
}

func (s *servers) start(name, initialCluster, state string) {
	p := s.procs[name]
	ca, crt, key := filepath.Join(s.dir, "ca.crt"), filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key")
	p.cmd = exec.Command(s.binary, "--name", name, "--data-dir", filepath.Join(s.dir, name),
		"--listen-client-urls", p.client, "--advertise-client-urls", p.client, "--listen-peer-urls", p.peer, "--initial-advertise-peer-urls", p.peer,
		"--initial-cluster", initialCluster, "--initial-cluster-state", state, "--heartbeat-interval", "200", "--election-timeout", "2500", // a busy host must not seem a dead leader

		"--cert-file", crt, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth",
		"--peer-cert-file", crt, "--peer-key-file", key, "--peer-trusted-ca-file", ca, "--peer-client-cert-auth", "--logger", "zap", "--log-level", "warn")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.kill(name)
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, p.out.String())
		}
	})
}

func (s *servers) kill(name string) {
	if p := s.procs[name]; p.cmd != nil && p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// bootstrap starts a new cluster of these members at once, as a static initial cluster.
func (s *servers) bootstrap(names ...string) {
	var initial []string
	for _, n := range names {
		initial = append(initial, n+"="+s.plan(n).peer)
	}
	for _, n := range names {
		s.start(n, strings.Join(initial, ","), "new")
	}
}

// connect returns a client for the named members with its own dialer, as through a jump host.
func (s *servers) connect(names ...string) (*Client, *atomic.Int32) {
	dialled := new(atomic.Int32)
	o := Options{TLS: s.tls, Timeout: 2 * time.Second, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		dialled.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}}
	for _, n := range names {
		o.Endpoints = append(o.Endpoints, Endpoint{Name: n, URL: s.procs[n].client})
	}
	c, err := Connect(context.Background(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c, dialled
}
