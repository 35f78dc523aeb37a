package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// etcdTLS is how Naupegos itself identifies to etcd: a client certificate of its own.
func (c *Cluster) etcdTLS(ctx context.Context) (*tls.Config, error) {
	pair, err := c.pki.Leaf(ctx, pki.LeafSpec{Name: "naupegos/etcd-client", Authority: pki.EtcdCA, CommonName: "naupegos", Client: true})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "load the etcd client certificate")
	}
	ca, err := c.pki.CABundle(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fail.New(fail.Internal, "the etcd authority's certificate can't be read")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
