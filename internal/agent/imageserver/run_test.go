package imageserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key))(t)
	a.cert = testkit.Value(x509.ParseCertificate(der))(t)
	return a
}

// leaf returns a certificate and its key in PEM.
func (a *authority) leaf(group string) (cert, key []byte) {
	a.t.Helper()
	k := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{Organization: []string{group}}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, tmpl, a.cert, k.Public(), a.key))(a.t)
	raw := testkit.Value(x509.MarshalPKCS8PrivateKey(k))(a.t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// TestRun: the server admits clients with a certificate of the authority and a group, and no others.
func TestRun(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		return filepath.Join(dir, name)
	}
	cert, key := ours.leaf("")
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	l.Close()
	o := Options{Listen: address, Index: write("images.json", []byte("{}")), Cert: write("tls.crt", cert), Key: write("tls.key", key), Groups: []string{nodes},
		CA: write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw})), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	ask := func(a *authority, group string) int {
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		if a != nil {
			config.Certificates = []tls.Certificate{testkit.Value(tls.X509KeyPair(a.leaf(group)))(t)}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 30 * time.Second}
		resp, err := client.Get("https://" + address + "/v2/")
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	testkit.Until(t, 30*time.Second, 20*time.Millisecond, testkit.That("it serves", func() bool { return ask(ours, nodes) != 0 }))
	for name, c := range map[string]struct {
		by    *authority
		group string
		want  int
	}{"a node": {ours, nodes, 200}, "a user": {ours, "developers", 403}, "another authority": {theirs, nodes, 0}, "no certificate": {nil, "", 0}} {
		if got := ask(c.by, c.group); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	stop()
	testkit.Must(t, <-ended)
	o.CA = write("empty.crt", nil)
	if err := Run(t.Context(), o); err == nil {
		t.Error("serves without an authority")
	}
}
