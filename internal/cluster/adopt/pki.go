package adopt

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/pki"
)

// pkiFile returns the path of an authority or key, given its name below kubeadm's directory: the servers' flags name the path on this host.
func (h Host) pkiFile(base string) string {
	var named string
	beside := func(cert string) string { return strings.TrimSuffix(cert, path.Ext(cert)) + ".key" }
	switch base {
	case "ca.crt":
		if named = h.flags("kube-apiserver")["client-ca-file"]; named == "" {
			named = h.kubeletCA()
		}
	case "ca.key":
		if named = h.flags("kube-controller-manager")["cluster-signing-key-file"]; named == "" {
			named = beside(h.pkiFile("ca.crt"))
		}
	case "front-proxy-ca.crt":
		named = h.flags("kube-apiserver")["requestheader-client-ca-file"]
	case "etcd/ca.crt":
		named = h.flags("etcd")["trusted-ca-file"]
	case "front-proxy-ca.key", "etcd/ca.key":
		named = beside(h.pkiFile(strings.TrimSuffix(base, ".key") + ".crt"))
	case "sa.key":
		named = h.flags("kube-apiserver")["service-account-signing-key-file"]
	}
	if !path.IsAbs(named) {
		return pkiDir + base
	}
	return path.Clean(named)
}

// kubeletCA is the authority of clients that the kubelet's configuration names.
func (h Host) kubeletCA() string {
	if file := h.kubeletArgs()["client-ca-file"]; file != "" {
		return file
	}
	settings, err := h.kubeletSettings()
	if err != nil {
		return ""
	}
	var c struct {
		X509 struct {
			ClientCAFile string `json:"clientCAFile"`
		} `json:"x509"`
	}
	if json.Unmarshal([]byte(settings["authentication"]), &c) != nil {
		return ""
	}
	return c.X509.ClientCAFile
}

// pkiBases are the files of a control plane's authorities and keys.
var pkiBases = []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key", "sa.key"}

// authorities gathers the authorities and keys, which must be the same everywhere.
func (d *drafting) authorities() {
	d.taken = pki.Taken{Authorities: map[string]pki.Pair{}}
	cps := d.controlPlane()
	if len(cps) == 0 || d.unread {
		return
	}
	first := cps[0]
	for name, base := range map[string]string{pki.KubernetesCA: "ca", pki.FrontProxyCA: "front-proxy-ca", pki.EtcdCA: "etcd/ca"} {
		key := first.Files[first.pkiFile(base+".key")]
		d.taken.Authorities[name] = pki.Pair{CertPEM: keyFirst(first.Files[first.pkiFile(base+".crt")], key), KeyPEM: key}
	}
	d.taken.ServiceAccount = first.Files[first.pkiFile("sa.key")]
	before := len(blocksOf(d.gaps))
	d.missingKeys(first)
	for _, h := range d.f.Hosts {
		switch {
		case h.Name == first.Name || d.skips(h.Name):
		case h.isControlPlane():
			d.otherKeys(first, h)
		case first.Files[first.pkiFile("ca.crt")] == nil: // reported above
		case !trusts(h.Files[h.pkiFile("ca.crt")], d.taken.Authorities[pki.KubernetesCA].CertPEM):
			d.block(h.Name, "bring "+first.pkiFile("ca.crt")+" of "+first.Name+" there, and restart the kubelet", "its authority is another one than that of %s (%s)", first.Name, h.pkiFile("ca.crt"))
		}
	}
	if len(blocksOf(d.gaps)) > before || d.external {
		return // another finding reports missing files
	}
	if _, err := d.taken.Secrets(); err != nil {
		d.block(first.Name, "bring the files of another control-plane machine, or those of a backup", "its authorities and keys can't be used: %v", err)
	}
}

func blocksOf(all gaps) (out gaps) {
	for _, g := range all {
		if g.Kind == Blocks {
			out = append(out, g)
		}
	}
	return out
}

// missingKeys blocks a control plane without authorities that can issue.
func (d *drafting) missingKeys(h Host) {
	var missing []string
	for _, base := range pkiBases {
		if file := h.pkiFile(base); h.Files[file] == nil && (!d.external || !strings.HasPrefix(base, "etcd/")) {
			missing = append(missing, file)
		}
	}
	if len(missing) == 0 {
		return
	}
	is := " is not there"
	if len(missing) > 1 {
		is = " are not there"
	}
	if dir := strings.TrimSuffix(d.conf.CertificatesDir, "/"); dir != "" && dir+"/" != pkiDir {
		is += " (kubeadm-config says that certificates lie in " + dir + ")"
	}
	d.block(h.Name, "nothing can be issued or renewed without: put it back, from another control-plane machine or a backup", "%s", strings.Join(missing, ", ")+is)
}

// otherKeys blocks a control-plane machine with other keys than the first has.
func (d *drafting) otherKeys(first, h Host) {
	var others []string
	for _, base := range pkiBases {
		if d.external && strings.HasPrefix(base, "etcd/") {
			continue
		}
		if digest(h.Files[h.pkiFile(base)]) != digest(first.Files[first.pkiFile(base)]) {
			others = append(others, h.pkiFile(base))
		}
	}
	switch len(others) {
	case 0:
	case 1:
		d.block(h.Name, "bring the same file to all control-plane machines", "%s is another one than that of %s", others[0], first.Name)
	default:
		d.block(h.Name, "bring the same files to all control-plane machines", "%s are others than those of %s", strings.Join(others, ", "), first.Name)
	}
}

// moveToPKI replaces the directory of a host's certificates by kubeadm's in settings, and notes that they move.
func (d *drafting) moveToPKI(settings map[string]string, h Host) {
	dir := path.Dir(h.pkiFile("ca.crt"))
	if dir+"/" == pkiDir || dir == "/" {
		return
	}
	for name, value := range settings {
		if strings.Contains(value, dir+"/") {
			settings[name] = strings.ReplaceAll(value, dir+"/", pkiDir)
			if !slices.Contains(d.moved[dir], h.Name) {
				d.moved[dir] = append(d.moved[dir], h.Name)
			}
		}
	}
}

// certificatesIn returns the certificates of PEM data, each as PEM.
func certificatesIn(bundle []byte) (out [][]byte) {
	for rest := bundle; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return out
		}
		if b.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: b.Bytes}))
		}
	}
}

// trusts reports whether a bundle contains the first certificate of an authority.
func trusts(bundle, authority []byte) bool {
	of := certificatesIn(authority)
	if len(of) == 0 {
		return bytes.Equal(bundle, authority)
	}
	return slices.ContainsFunc(certificatesIn(bundle), func(c []byte) bool { return bytes.Equal(c, of[0]) })
}

// keyFirst moves the certificate of a key to the front of a bundle: while an authority is being replaced, the old certificate may come first. It
// does not change a bundle without the certificate.
func keyFirst(bundle, keyPEM []byte) []byte {
	all := certificatesIn(bundle)
	public, ok := publicOf(keyPEM).(interface{ Equal(crypto.PublicKey) bool })
	if len(all) < 2 || !ok {
		return bundle
	}
	at := slices.IndexFunc(all, func(text []byte) bool {
		b, _ := pem.Decode(text)
		cert, err := x509.ParseCertificate(b.Bytes)
		return err == nil && public.Equal(cert.PublicKey)
	})
	if at < 0 {
		return bundle
	}
	all[0], all[at] = all[at], all[0]
	return bytes.Join(all, nil)
}

// publicOf returns the public half of a private key; nil if it can't be read.
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
