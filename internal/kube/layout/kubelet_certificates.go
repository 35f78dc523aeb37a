package layout

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

// A kubelet's first client certificate is valid for a few hours. Kubelets renew their certificates, with new keys, after 70 to 90 % of the lifetime
// (jitteryDuration in k8s.io/client-go/util/certificate). This one is backdated so that the kubelet renews it within two hours, and soon has a key
// that never left its machine.
const (
	firstCertValidity = 3 * time.Hour
	firstCertAge      = 6*time.Hour + 50*time.Minute
)

// KubeletClientPath returns the path of the certificate, with its key, by which a machine's kubelet authenticates. externalCA is Params.ExternalCA.
func KubeletClientPath(externalCA bool) string {
	if externalCA {
		return kubeletOwnCert
	}
	return kubeletCertPath
}

// kubeletCertificates returns a kubelet's certificates, and the path of its client certificate.
func (p Params) kubeletCertificates(ctx context.Context, k *pki.PKI, n Node) (files []machine.File, shown string, err error) {
	if !p.ExternalCA {
		files, err = p.kubeletFirsts(ctx, k, n)
		return files, KubeletClientPath(false), err
	}
	client, server := kubeletLeaves(n)
	client.Name, server.Name = n.Name+"/kubelet-client", n.Name+"/kubelet-server"
	for _, own := range []struct {
		path string
		spec pki.LeafSpec
	}{{kubeletOwnCert, client}, {kubeletOwnServing, server}} {
		cert, err := k.Leaf(ctx, own.spec)
		if err != nil {
			return nil, "", err
		}
		files = append(files, private(own.path, slices.Concat(cert.CertPEM, cert.KeyPEM)))
	}
	return files, KubeletClientPath(true), nil
}

// kubeletLeaves returns a kubelet's client and serving certificates.
func kubeletLeaves(n Node) (client, server pki.LeafSpec) {
	spec := pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: nodeUser(n), Organizations: []string{"system:nodes"}}
	client, server = spec, spec
	client.Client, server.Server = true, true
	server.DNSNames, server.IPs = []string{n.Name}, []net.IP{net.ParseIP(n.Address)}
	return client, server
}

// kubeletFirsts returns a kubelet's first certificates. It includes a serving certificate only if the authority is not the cluster's first: otherwise
// the kubelet has none yet and requests one itself.
func (p Params) kubeletFirsts(ctx context.Context, k *pki.PKI, n Node) ([]machine.File, error) {
	signer, err := k.Signer(ctx, pki.KubernetesCA)
	if err != nil {
		return nil, err
	}
	client, server := kubeletLeaves(n)
	client.Age, server.Age = firstCertAge, firstCertAge
	var files []machine.File
	for _, first := range []struct {
		path, renewedAt string
		spec            pki.LeafSpec
	}{{kubeletFirstCertPath, kubeletCertPath, client}, {kubeletFirstServing, kubeletServingPath, server}} {
		if first.spec.Server && k.Generations(pki.KubernetesCA).Signs == 1 {
			continue
		}
		cert, err := k.Issue(ctx, first.spec, firstCertValidity)
		if err != nil {
			return nil, err
		}
		f := private(first.path, slices.Concat(cert.CertPEM, cert.KeyPEM))
		f.RenewedAt, f.Authority = first.renewedAt, signer
		files = append(files, f)
	}
	return files, nil
}
