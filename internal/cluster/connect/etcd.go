package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

const etcdPort = "2379"

// PeerURL returns the URL at which a control-plane machine's etcd member serves its peers.
func PeerURL(address string) string { return fmt.Sprintf("https://%s:2380", address) }

// EtcdClient connects to the members on the control-plane machines that run, each through its own machine.
func (c *Conn) EtcdClient(ctx context.Context, machines []provider.Machine) (*etcd.Client, error) {
	byAddr := map[string]string{}
	var ends []etcd.Endpoint
	for _, m := range machines {
		if m.Role != provider.ControlPlane || !m.MayRun() {
			continue
		}
		addr := net.JoinHostPort(m.Address, etcdPort)
		byAddr[addr] = m.Name
		ends = append(ends, etcd.Endpoint{Name: m.Name, URL: "https://" + addr})
	}
	if len(ends) == 0 {
		return nil, fail.New(fail.Unreachable, "no control-plane machine is running")
	}
	tlsConfig, err := c.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		name, ok := byAddr[addr]
		if !ok {
			return nil, fail.New(fail.Internal, "etcd client asked for %s, which is not a member's address", addr)
		}
		h, err := c.Host(ctx, name)
		if err != nil {
			return nil, err
		}
		return c.Dialer.DialContext(ctx, h, "tcp", addr)
	}
	pause := func(ctx context.Context) func() {
		var hosts []remote.Host
		for _, e := range ends {
			if h, err := c.Host(ctx, e.Name); err == nil { // a machine that can't be reached is not paused
				hosts = append(hosts, h)
			}
		}
		return c.Dialer.Pause(ctx, hosts, "kube-apiserver")
	}
	return etcd.Connect(ctx, etcd.Options{Endpoints: ends, TLS: tlsConfig, Dial: dial, Timeout: env.EtcdTime(c.Doc), Quiet: pause})
}

// etcdTLS is how Naupegos itself identifies to etcd: a client certificate of its own.
func (c *Conn) etcdTLS(ctx context.Context) (*tls.Config, error) {
	pair, err := c.PKI.Leaf(ctx, pki.LeafSpec{Name: "naupegos/etcd-client", Authority: pki.EtcdCA, CommonName: "naupegos", Client: true})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "load the etcd client certificate")
	}
	ca, err := c.PKI.CABundle(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fail.New(fail.Internal, "the etcd authority's certificate can't be read")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// WithEtcd calls do with a client of the members that run now.
func (c *Conn) WithEtcd(ctx context.Context, do func(*etcd.Client) error) error {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return err
	}
	e, err := c.EtcdClient(ctx, inv.Machines)
	if err != nil {
		return err
	}
	defer e.Close()
	return do(e)
}
