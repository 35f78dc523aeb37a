//go:build integration

package etcd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
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

// program finds etcd or one of its tools: beside the etcd that NAUPEGOS_ETCD names, or in a bundle of the library.
func program(t *testing.T, name string) string {
	t.Helper()
	if etcd := os.Getenv("NAUPEGOS_ETCD"); etcd != "" {
		return filepath.Join(filepath.Dir(etcd), name)
	}
	return bundletest.Program(t, bundletest.Any(t), name)
}

// certificates makes one authority and one certificate for everybody.
func (s *servers) certificates() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.write("tls.crt", crt)
	s.write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(crt)
	s.tls = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func (s *servers) write(name string, content []byte) {
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// plan reserves addresses for a server that is started later.
func (s *servers) plan(name string) *server {
	free := func() string { return fmt.Sprintf("https://127.0.0.1:%d", testkit.FreePort(s.t)) }
	p := &server{name: name, client: free(), peer: free()}
	s.procs[name] = p
	return p
}

func (s *servers) start(name, initialCluster, state string) {
	p := s.procs[name]
	crt, key := filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key")
	p.cmd = exec.Command(s.binary, "--name", name, "--data-dir", filepath.Join(s.dir, name),
		"--listen-client-urls", p.client, "--advertise-client-urls", p.client, "--listen-peer-urls", p.peer, "--initial-advertise-peer-urls", p.peer,
		"--initial-cluster", initialCluster, "--initial-cluster-state", state, "--heartbeat-interval", "50", "--election-timeout", "500",
		"--cert-file", crt, "--key-file", key, "--trusted-ca-file", crt, "--client-cert-auth",
		"--peer-cert-file", crt, "--peer-key-file", key, "--peer-trusted-ca-file", crt, "--peer-client-cert-auth", "--logger", "zap", "--log-level", "warn")
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

// connect makes a client that knows the named members and dials by a dialer of its own, as through a jump host.
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
