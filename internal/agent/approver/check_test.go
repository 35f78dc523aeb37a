package approver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
)

// forge has the parts of a request; each test spoils one of them.
type forge struct {
	request
	template x509.CertificateRequest
	spoil    func([]byte) []byte
}

func honest() forge {
	return forge{
		request: request{
			SignerName: signer, Username: "system:node:demo-cp-1", Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []string{"server auth", "digital signature"},
		},
		template: x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:demo-cp-1", Organization: []string{"system:nodes"}},
			DNSNames:    []string{"demo-cp-1"},
			IPAddresses: []net.IP{net.ParseIP("10.0.0.21")},
		},
	}
}

func (f forge) make(t *testing.T) request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &f.template, key)
	if err != nil {
		t.Fatal(err)
	}
	r := f.request
	r.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	if f.spoil != nil {
		r.Request = f.spoil(r.Request)
	}
	return r
}

func TestDecide(t *testing.T) {
	nodes := map[string][]string{"demo-cp-1": {"10.0.0.21", "fd00::21", "demo-cp-1.example.org"}, "demo-w-1": {"10.0.0.101"}}
	cases := []struct {
		name  string
		forge func(*forge)
		want  verdict
		why   string
	}{
		{"honest", func(*forge) {}, approve, "demo-cp-1"},
		{"RSA", func(f *forge) { f.Usages = []string{"key encipherment", "digital signature", "server auth"} }, approve, ""},
		{"all its names", func(f *forge) {
			f.template.DNSNames = append(f.template.DNSNames, "demo-cp-1.example.org")
			f.template.IPAddresses = append(f.template.IPAddresses, net.ParseIP("fd00::21"))
		}, approve, ""},
		{"only an address", func(f *forge) { f.template.DNSNames = nil }, approve, ""},
		{"another signer", func(f *forge) { f.SignerName = "kubernetes.io/kube-apiserver-client" }, leave, ""},
		{"unknown node", func(f *forge) {
			f.Username, f.template.Subject.CommonName = "system:node:stranger", "system:node:stranger"
		}, leave, "stranger"},
		{"not a node", func(f *forge) { f.Username = "system:admin" }, deny, "not a node"},
		{"empty node", func(f *forge) { f.Username = "system:node:" }, deny, "not a node"},
		{"not in the group", func(f *forge) { f.Groups = []string{"system:authenticated"} }, deny, "group"},
		{"another machine's name", func(f *forge) { f.Username = "system:node:demo-w-1" }, deny, "common name"},
		{"common name with suffix", func(f *forge) { f.template.Subject.CommonName += "0" }, deny, "common name"},
		{"more organizations", func(f *forge) {
			f.template.Subject.Organization = []string{"system:nodes", "system:masters"}
		}, deny, "organization"},
		{"other organization", func(f *forge) { f.template.Subject.Organization = []string{"system:masters"} }, deny, "organization"},
		{"more subject", func(f *forge) { f.template.Subject.OrganizationalUnit = []string{"x"} }, deny, "subject"},
		{"client usage", func(f *forge) { f.Usages = append(f.Usages, "client auth") }, deny, "usages"},
		{"client usage only", func(f *forge) { f.Usages = []string{"digital signature", "client auth"} }, deny, "usages"},
		{"usage twice", func(f *forge) { f.Usages = append(f.Usages, "server auth") }, deny, "usages"},
		{"no usage", func(f *forge) { f.Usages = nil }, deny, "usages"},
		{"foreign DNS name", func(f *forge) { f.template.DNSNames = []string{"demo-cp-1", "kubernetes.default"} }, deny, "kubernetes.default"},
		{"wildcard", func(f *forge) { f.template.DNSNames = []string{"*"} }, deny, "DNS name"},
		{"foreign address", func(f *forge) { f.template.IPAddresses = []net.IP{net.ParseIP("10.0.0.101")} }, deny, "10.0.0.101"},
		{"service address", func(f *forge) {
			f.template.IPAddresses = append(f.template.IPAddresses, net.ParseIP("10.96.0.1"))
		}, deny, "10.96.0.1"},
		{"no names", func(f *forge) { f.template.DNSNames, f.template.IPAddresses = nil, nil }, deny, "neither"},
		{"e-mail", func(f *forge) { f.template.EmailAddresses = []string{"a@example.org"} }, deny, "e-mail"},
		{"URI", func(f *forge) { f.template.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, deny, "URIs"},
		{"no PEM", func(f *forge) { f.spoil = func([]byte) []byte { return []byte("x") } }, deny, "PEM"},
		{"two PEMs", func(f *forge) { f.spoil = func(b []byte) []byte { return append(b, b...) } }, deny, "PEM"},
		{"a certificate", func(f *forge) {
			f.spoil = func(b []byte) []byte {
				return []byte(strings.ReplaceAll(string(b), "CERTIFICATE REQUEST", "CERTIFICATE"))
			}
		}, deny, "PEM"},
		{"bad signature", func(f *forge) {
			f.spoil = func(b []byte) []byte {
				block, _ := pem.Decode(b)
				block.Bytes[len(block.Bytes)-1] ^= 1
				return pem.EncodeToMemory(block)
			}
		}, deny, "signature"},
		{"cut short", func(f *forge) {
			f.spoil = func(b []byte) []byte {
				block, _ := pem.Decode(b)
				block.Bytes = block.Bytes[:len(block.Bytes)/2]
				return pem.EncodeToMemory(block)
			}
		}, deny, "parsed"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := honest()
			tc.forge(&f)
			got, why := decide(f.make(t), nodes)
			if got != tc.want || !strings.Contains(why, tc.why) {
				t.Errorf("verdict %d because %q, want %d", got, why, tc.want)
			}
		})
	}
}
