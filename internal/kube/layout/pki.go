package layout

import (
	"context"
	"net"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

const (
	kubernetesDir = "/etc/kubernetes"
	pkiDir        = kubernetesDir + "/pki"
	ourDir        = kubernetesDir + "/naupegos" // files that only our API servers read
	// signerPath has the one certificate with which controller managers sign: they accept only one, and ca.crt may have several.
	signerPath = pkiDir + "/ca-signer.crt"
)

// fileSet collects the files of a machine and finds them again by path.
type fileSet []machine.File

func (s *fileSet) add(files ...machine.File) { *s = append(*s, files...) }

// pair adds a certificate and its key as base.crt and base.key, with kubeadm's modes.
func (s *fileSet) pair(base string, p pki.Pair) {
	s.add(text(path.Join(pkiDir, base+".crt"), string(p.CertPEM)), private(path.Join(pkiDir, base+".key"), p.KeyPEM))
}

// authority adds an authority's certificates as base.crt and, unless that is elsewhere, its key as base.key.
func (s *fileSet) authority(base string, p pki.Pair) {
	if len(p.KeyPEM) > 0 {
		s.pair(base, p)
		return
	}
	s.add(text(path.Join(pkiDir, base+".crt"), string(p.CertPEM)))
}

// under returns the files whose path begins with any of the prefixes.
func (s fileSet) under(prefixes ...string) []machine.File {
	var out []machine.File
	for _, f := range s {
		for _, p := range prefixes {
			if strings.HasPrefix(f.Path, p) {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

// leafAt is a leaf and its path below the PKI directory.
type leafAt struct {
	base    string
	spec    pki.LeafSpec
	chained bool // presented with pki.PKI.CrossChain, because clients may know only a former authority
}

func (s *fileSet) leaves(ctx context.Context, k *pki.PKI, n Node, leaves []leafAt) error {
	for _, l := range leaves {
		l.spec.Name = n.Name + "/" + strings.ReplaceAll(l.base, "/", "-")
		pair, err := k.Leaf(ctx, l.spec)
		if err != nil {
			return err
		}
		if l.chained {
			chain, err := k.CrossChain(ctx, l.spec.Authority)
			if err != nil {
				return err
			}
			pair.CertPEM = append(pair.CertPEM, chain...)
		}
		s.pair(l.base, pair)
	}
	return nil
}

// controlPlanePKI renders /etc/kubernetes/pki as kubeadm does, without the files of etcd's members.
func (p Params) controlPlanePKI(ctx context.Context, k *pki.PKI, n Node) (fileSet, error) {
	var files fileSet
	for _, a := range [][2]string{{"ca", pki.KubernetesCA}, {"front-proxy-ca", pki.FrontProxyCA}} {
		pair, err := k.Authority(ctx, a[1])
		if err != nil {
			return nil, err
		}
		files.authority(a[0], pair)
	}
	if k.Generations(pki.KubernetesCA).Also != 0 {
		signer, err := k.Signer(ctx, pki.KubernetesCA)
		if err != nil {
			return nil, err
		}
		files.add(text(signerPath, string(signer)))
	}
	etcdCA, err := k.CABundle(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	signing, public, err := k.ServiceAccountKey(ctx)
	if err != nil {
		return nil, err
	}
	files.add(text(pkiDir+"/etcd/ca.crt", string(etcdCA)), private(pkiDir+"/sa.key", signing), private(pkiDir+"/sa.pub", public))
	wants, err := p.of(n).wants()
	if err != nil {
		return nil, err
	}
	kubeletClient := pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "kube-apiserver-kubelet-client", Client: true}
	if wants.KubeletClientGroup != "" {
		kubeletClient.Organizations = []string{wants.KubeletClientGroup}
	}
	return files, files.leaves(ctx, k, n, []leafAt{
		{base: "apiserver", spec: p.apiServerLeaf(n), chained: true},
		{base: "apiserver-kubelet-client", spec: kubeletClient},
		{base: "apiserver-etcd-client", spec: pki.LeafSpec{Authority: pki.EtcdCA, CommonName: "kube-apiserver-etcd-client", Client: true}},
		{base: "front-proxy-client", spec: pki.LeafSpec{Authority: pki.FrontProxyCA, CommonName: "front-proxy-client", Client: true}},
	})
}

func (p Params) apiServerLeaf(n Node) pki.LeafSpec {
	s := pki.LeafSpec{
		Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true,
		DNSNames: []string{n.Name, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + p.DNSDomain},
	}
	for _, san := range append([]string{p.serviceAddress(1), n.Address, p.endpointHost()}, p.APIServerSANs...) {
		if ip := net.ParseIP(san); ip != nil {
			s.IPs = append(s.IPs, ip)
		} else {
			s.DNSNames = append(s.DNSNames, san)
		}
	}
	return s
}

// etcdPKI renders the files of an etcd member below the PKI directory as kubeadm does.
func etcdPKI(ctx context.Context, k *pki.PKI, n Node) (fileSet, error) {
	ca, err := k.Authority(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	var files fileSet
	files.authority("etcd/ca", ca)
	member := pki.LeafSpec{
		Authority: pki.EtcdCA, CommonName: n.Name, Server: true, Client: true,
		DNSNames: []string{n.Name, "localhost"},
		IPs:      []net.IP{net.ParseIP(n.Address), net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	return files, files.leaves(ctx, k, n, []leafAt{
		{base: "etcd/server", spec: member},
		{base: "etcd/peer", spec: member},
		{base: "etcd/healthcheck-client", spec: pki.LeafSpec{Authority: pki.EtcdCA, CommonName: "kube-etcd-healthcheck-client", Client: true}},
	})
}
