package adopt

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// networks finds the cluster's networks and its domain: what servers run with counts, then what kubeadm has recorded, then its defaults.
func (d *drafting) networks() {
	k, n := &d.want.Spec.Kubernetes, &d.conf.Networking
	var services, pods, domain string
	if cps := d.controlPlane(); len(cps) > 0 {
		services = cps[0].flags("kube-apiserver")["service-cluster-ip-range"]
		pods = cps[0].flags("kube-controller-manager")["cluster-cidr"]
		domain = cps[0].clusterDomain()
	}
	k.ServiceCIDR = masked(d.running("serviceSubnet", services, n.ServiceSubnet, "10.96.0.0/12"))
	k.PodCIDR = masked(d.running("podSubnet", pods, n.PodSubnet, ""))
	k.DNSDomain = d.running("dnsDomain", domain, n.DNSDomain, "cluster.local")
	k.CNI = v1alpha1.CNINone
}

// running returns what a server runs with, else what is recorded, else the default. A difference is a finding.
func (d *drafting) running(name, runs, recorded, otherwise string) string {
	switch {
	case runs == "" && recorded == "":
		return otherwise
	case runs == "":
		return recorded
	}
	if recorded != "" && masked(recorded) != masked(runs) {
		d.add(Changes, whole, "kubeadm-config says "+name+" "+recorded+", but servers run with "+runs+": what runs counts, and is recorded", "")
	}
	return runs
}

// masked returns a network without host bits: servers take 10.244.0.1/16 as 10.244.0.0/16. Anything else stays as it is.
func masked(network string) string {
	p, err := netip.ParsePrefix(strings.TrimSpace(network))
	if err != nil {
		return network
	}
	return p.Masked().String()
}

// clusterDomain is the domain of Services by the kubelet's configuration.
func (h Host) clusterDomain() string {
	var c struct {
		ClusterDomain string `json:"clusterDomain"`
	}
	if yaml.Unmarshal(h.Files[kubeletConfig], &c) != nil {
		return "" // told of where kubelets are compared
	}
	return c.ClusterDomain
}

// certificates is the directory of the certificates that a control-plane machine's servers use.
func (d *drafting) certificates(h Host) string {
	if ca := h.flags("kube-apiserver")["client-ca-file"]; ca != "" && d.conf.CertificatesDir == "" {
		return path.Dir(ca)
	}
	if d.conf.CertificatesDir != "" {
		return strings.TrimSuffix(d.conf.CertificatesDir, "/")
	}
	return strings.TrimSuffix(pkiDir, "/")
}

// withAuthority is the first host that has the cluster's authority; the first of all where none has.
func (d *drafting) withAuthority() Host {
	for _, h := range d.f.Hosts {
		if h.Files[pkiDir+"ca.crt"] != nil {
			return h
		}
	}
	return d.f.Hosts[0]
}

// keyFirst puts the certificate that belongs to a key before the others of a bundle: while an authority is replaced, the old one may come first.
// A bundle that does not hold it, or can't be read, stays as it is.
func keyFirst(bundle, keyPEM []byte) []byte {
	public := publicOf(keyPEM)
	if public == nil {
		return bundle
	}
	var match, others []byte
	for rest := bundle; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if same, ok := public.(interface{ Equal(crypto.PublicKey) bool }); err == nil && ok && match == nil && same.Equal(cert.PublicKey) {
			match = pem.EncodeToMemory(b)
			continue
		}
		others = append(others, pem.EncodeToMemory(b)...)
	}
	if match == nil || len(others) == 0 {
		return bundle
	}
	return bytes.Join([][]byte{match, others}, nil)
}

// publicOf returns the public half of a private key; nil where it can't be read.
func publicOf(keyPEM []byte) crypto.PublicKey {
	for rest := keyPEM; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil
		}
		var key any
		var err error
		switch b.Type {
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		default:
			continue // parameters of a curve
		}
		if s, ok := key.(crypto.Signer); ok && err == nil {
			return s.Public()
		}
		return nil
	}
}
