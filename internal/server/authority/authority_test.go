package authority

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// memory keeps secrets in memory.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (m *memory) Get(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.all[name]; ok {
		return v, nil
	}
	return nil, fail.New(fail.NotFound, "no %s", name)
}

func (m *memory) PutIfAbsent(_ context.Context, name string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.all[name]; !ok {
		m.all[name] = value
	}
	return m.all[name], nil
}

func TestOneAuthority(t *testing.T) {
	s := &memory{all: map[string][]byte{}}
	a := testkit.Value(Open(t.Context(), s, "server"))(t)
	b := testkit.Value(Open(t.Context(), s, "server"))(t)
	if string(a.PEM()) != string(b.PEM()) {
		t.Error("two authorities were made")
	}
	serving := testkit.Value(b.Serve([]string{"boot.example.com", "192.0.2.7"}, slog.New(slog.DiscardHandler)))(t)
	leaf := serving.current.Load().Leaf
	for _, name := range []string{"boot.example.com", "192.0.2.7", "localhost", "127.0.0.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if block, _ := pem.Decode(a.PEM()); serving.Root() != fmt.Sprintf("sha256:%x", sha256.Sum256(block.Bytes)) {
		t.Errorf("%s is not the authority's fingerprint", serving.Root())
	}
	if left := time.Until(leaf.NotAfter); left > leafLife || left < leafLife-time.Hour {
		t.Errorf("it ends in %s", left)
	}
	_, err := parse([]byte("-----BEGIN nothing"))
	testkit.Fails(t, err, fail.Internal, "damaged")
}

// TestClockWasAhead: a certificate that was issued while the clock was ahead is replaced once the clock is right again.
func TestClockWasAhead(t *testing.T) {
	a := testkit.Value(Open(t.Context(), &memory{all: map[string][]byte{}}, "server"))(t)
	serving := testkit.Value(a.Serve(nil, slog.New(slog.DiscardHandler)))(t)
	first := *serving.current.Load()
	testkit.Must(t, serving.refresh())
	if serving.current.Load().Leaf != first.Leaf {
		t.Error("a good certificate was replaced")
	}
	future := *first.Leaf
	future.NotBefore, future.NotAfter = time.Now().Add(24*time.Hour), time.Now().Add(24*time.Hour+leafLife)
	serving.current.Store(&tls.Certificate{Certificate: first.Certificate, PrivateKey: first.PrivateKey, Leaf: &future})
	testkit.Must(t, serving.refresh())
	if now := serving.current.Load().Leaf; now.NotBefore.After(time.Now()) {
		t.Errorf("it is valid from %s", now.NotBefore)
	}
}

// TestFilesAreReadAgain: a certificate that another program renews is used without a restart.
func TestFilesAreReadAgain(t *testing.T) {
	a := testkit.Value(Open(t.Context(), &memory{all: map[string][]byte{}}, "server"))(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(name string, at time.Time) {
		c := testkit.Value(a.leaf([]string{name}))(t)
		raw := testkit.Value(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
		testkit.Must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600))
		testkit.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
		testkit.Must(t, os.Chtimes(cert, at, at))
	}
	write("first.example.com", time.Now().Add(-time.Hour))
	s := testkit.Value(Files(cert, key, slog.New(slog.DiscardHandler)))(t)
	write("second.example.com", time.Now())
	testkit.Must(t, s.refresh())
	c := testkit.Value(s.Config(nil).GetCertificate(&tls.ClientHelloInfo{}))(t)
	if c.Leaf.DNSNames[0] != "second.example.com" {
		t.Errorf("it serves with %v", c.Leaf.DNSNames)
	}
	_, err := Files(filepath.Join(dir, "none"), key, slog.New(slog.DiscardHandler))
	testkit.Fails(t, err, fail.Invalid, "certificate")
}
