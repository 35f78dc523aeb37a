package bed

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTLS creates the files of the region behind TLS and checks them with HAProxy itself.
func TestTLS(t *testing.T) {
	for _, program := range []string{"openssl", "haproxy"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	b := testBed(t)
	for _, d := range []string{b.tlsDir(), filepath.Join(b.state(), "home"), filepath.Join(b.state(), "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := tlsCertificate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(b.CACertFile())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(b.tlsDir(), "server.pem"), filepath.Join(b.tlsDir(), "server.pem.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(made)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: b.Address()}); err != nil {
		t.Error(err)
	}
	if err := tlsCertificate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(b.CACertFile()); err != nil || !bytes.Equal(again, made) {
		t.Errorf("the second call replaced the authority, or %v", err)
	}
	files, err := render(b.settings())
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(b.state(), "haproxy.cfg")
	if err := os.WriteFile(config, files["haproxy.cfg"], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("haproxy", "-c", "-f", config).CombinedOutput(); err != nil || bytes.Contains(out, []byte("[WARNING]")) {
		t.Errorf("%v: %s\n%s", err, out, files["haproxy.cfg"])
	}
}

// TestDefinition checks that a service's arguments change the bed's definition, and that contains tells added packages from changed ones.
func TestDefinition(t *testing.T) {
	b := testBed(t)
	one, err := definition(b, "a 1\nb 1")
	if err != nil {
		t.Fatal(err)
	}
	b.all[0].args = append(b.all[0].args, "--another")
	if two, err := definition(b, "a 1\nb 1"); err != nil || two == one {
		t.Errorf("another argument does not change the definition: %s, %s, %v", one, two, err)
	}
	if !contains("a 1\nb 1\nc 1", "a 1\nb 1") || contains("a 1\nb 2", "a 1\nb 1") || contains("b 1", "a 1\nb 1") {
		t.Error("packages are compared in a wrong way")
	}
}
