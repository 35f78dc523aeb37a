//go:build integration

package kube

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// api is a real API server with etcd and controller manager on loopback. There is no scheduler and no kubelet: see kubelets.
type api struct {
	t          *testing.T
	dir        string
	server     string
	kubeconfig []byte
	dialled    atomic.Int32
}

// opsBinary finds a component: the environment's NAUPEGOS_ETCD, NAUPEGOS_KUBE_APISERVER, NAUPEGOS_KUBE_CONTROLLER_MANAGER, or
// else the image of the newest bundle of the library.
func opsBinary(t *testing.T, name string) string {
	t.Helper()
	env := "NAUPEGOS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if path := os.Getenv(env); path != "" {
		return path
	}
	return bundletest.FromImage(t, bundletest.Of(t, release.Default), name)
}

func startAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, dir: t.TempDir()}
	etcdClient, etcdPeer, port := freeAddress(t), freeAddress(t), freeAddress(t)
	_, portNumber, err := net.SplitHostPort(port)
	testkit.Must(t, err)
	a.server = "https://" + port
	a.certificates()
	a.run(opsBinary(t, "etcd"), "--data-dir", a.path("etcd"), "--listen-client-urls", "http://"+etcdClient, "--advertise-client-urls", "http://"+etcdClient,
		"--listen-peer-urls", "http://"+etcdPeer, "--initial-advertise-peer-urls", "http://"+etcdPeer, "--initial-cluster", "default=http://"+etcdPeer, "--log-level", "error")
	a.run(opsBinary(t, "kube-apiserver"), "--etcd-servers", "http://"+etcdClient, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", portNumber,
		"--cert-dir", a.dir, "--tls-cert-file", a.path("tls.crt"), "--tls-private-key-file", a.path("tls.key"), "--client-ca-file", a.path("ca.crt"),
		"--service-account-key-file", a.path("tls.key"), "--service-account-signing-key-file", a.path("tls.key"), "--service-account-issuer", "https://test",
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "Node,RBAC", "--allow-privileged", "--endpoint-reconciler-type", "none")
	a.write("kubeconfig", a.kubeconfig)
	a.run(opsBinary(t, "kube-controller-manager"), "--kubeconfig", a.path("kubeconfig"), "--leader-elect=false", "--service-account-private-key-file", a.path("tls.key"),
		"--controllers", "namespace-controller,deployment-controller,replicaset-controller,daemonset-controller,disruption-controller,garbage-collector-controller,serviceaccount-controller",
		"--cert-dir", a.dir, "--secure-port", "0")
	return a
}

func freeAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t)) }

func (a *api) path(name string) string { return filepath.Join(a.dir, name) }

func (a *api) write(name string, content []byte) {
	testkit.Must(a.t, os.WriteFile(a.path(name), content, 0o600))
}

// run starts a server until the test ends.
func (a *api) run(argv ...string) {
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(a.t, cmd.Start())
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if a.t.Failed() {
			raw := out.Bytes()
			a.t.Logf("%s:\n%s", filepath.Base(argv[0]), raw[max(0, len(raw)-3000):])
		}
	})
}

// certificates makes one certificate that is server and administrator at once, and a kubeconfig with it.
func (a *api) certificates() {
	ca := pkitest.NewAuthority(a.t)
	pair := ca.Issue(pki.LeafSpec{CommonName: "admin", Organizations: []string{"system:masters"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	a.write("ca.crt", ca.PEM())
	a.write("tls.crt", pair.CertPEM)
	a.write("tls.key", pair.KeyPEM)
	a.kubeconfig = fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, a.server, a.path("ca.crt"), a.path("tls.crt"), a.path("tls.key"))
}

// client uses its own dialer, as through a jump host.
func (a *api) client() *Client {
	c, err := NewClient(a.kubeconfig, ClientOptions{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		a.dialled.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}})
	testkit.Must(a.t, err)
	a.t.Cleanup(c.Close)
	return c
}
