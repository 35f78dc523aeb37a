package connect

import (
	"context"
	"net"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
)

// AutoscalerName is the common name of an autoscaler's client certificate. To the Kubernetes API it is a user without rights.
const AutoscalerName = "naupegos:autoscaler"

// autoscaleValidity is how long certificates for autoscaling are valid.
const autoscaleValidity = 365 * 24 * time.Hour

// AutoscaleAuthorities returns the authorities that the cluster's autoscaler and its server come from.
func (c *Conn) AutoscaleAuthorities(ctx context.Context) ([]byte, error) {
	return c.PKI.CABundle(ctx, pki.KubernetesCA)
}

// AutoscaleServer issues the certificate of a server for this cluster's autoscaler, which reaches it by these names and addresses, and returns
// the authorities that its clients come from.
func (c *Conn) AutoscaleServer(ctx context.Context, reached []string) (pair pki.Pair, ca []byte, err error) {
	s := pki.LeafSpec{Name: "autoscale", Authority: pki.KubernetesCA, CommonName: "naupegos:autoscale", Server: true}
	for _, r := range reached {
		if ip := net.ParseIP(r); ip != nil {
			s.IPs = append(s.IPs, ip)
		} else {
			s.DNSNames = append(s.DNSNames, r)
		}
	}
	return c.autoscaleIdentity(ctx, s)
}

// AutoscaleClient issues the certificate of this cluster's autoscaler, and returns the authorities that its server comes from.
func (c *Conn) AutoscaleClient(ctx context.Context) (pair pki.Pair, ca []byte, err error) {
	return c.autoscaleIdentity(ctx, pki.LeafSpec{Name: "autoscaler", Authority: pki.KubernetesCA, CommonName: AutoscalerName, Client: true})
}

func (c *Conn) autoscaleIdentity(ctx context.Context, s pki.LeafSpec) (pair pki.Pair, ca []byte, err error) {
	if pair, err = c.PKI.Issue(ctx, s, autoscaleValidity); err != nil {
		return pair, nil, err
	}
	ca, err = c.AutoscaleAuthorities(ctx)
	return pair, ca, err
}
