package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

var good = "quiet naupegos.server=https://10.0.0.1:8443/ naupegos.authority=sha256:" + strings.Repeat("ab", 32) + " BOOTIF=01-52-54-00-AA-bb-cc naupegos.lldp=1s"

func TestSettings(t *testing.T) {
	s := testkit.Value(parse(good))(t)
	if s.server != "https://10.0.0.1:8443" || s.authority[0] != 0xab || s.bootMAC != "52:54:00:aa:bb:cc" || s.lldp != time.Second || s.retry != time.Minute {
		t.Errorf("%+v", s)
	}
	for line, words := range map[string]string{
		"": "no server", strings.Replace(good, "https", "http", 1): "no server", strings.Replace(good, "abab", "", 1): "no authority of the server",
		good + " naupegos.retry=-1s": "naupegos.retry", good + " naupegos.shell=yes": "naupegos.shell",
	} {
		_, err := parse(line)
		testkit.Fails(t, err, fail.Invalid, words)
	}
	if s, err := parse(good + " naupegos.wait=x naupegos.retry=3s"); err == nil || s.retry != 3*time.Second {
		t.Errorf("%v: a valid value is refused: %v", err, s.retry)
	}
}

// TestServerIsBelievedByItsAuthority: machines trust only servers whose authority their kernel arguments name.
func TestServerIsBelievedByItsAuthority(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
	}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	sum := sha256.Sum256(s.Certificate().Raw)
	b := &boot{settings: settings{server: s.URL, authority: sum[:]}}
	at, err := timeOf(t.Context(), testkit.Value(b.client(false, nil))(t), b.server)
	if err != nil || at.Year() != 2026 {
		t.Errorf("%v, %v", at, err)
	}
	if block, _ := pem.Decode(b.believed()); block == nil || !bytes.Equal(block.Bytes, s.Certificate().Raw) {
		t.Errorf("%s is the authority", b.believed())
	}
	b.authority = make([]byte, 32)
	if _, err := timeOf(t.Context(), testkit.Value(b.client(false, nil))(t), b.server); err == nil || !strings.Contains(err.Error(), "naupegos.authority") {
		t.Errorf("another authority is believed: %v", err)
	}
	chain := []*x509.Certificate{s.Certificate()}
	if _, err := verify(chain, sum[:], "boot.example.org", true); err == nil {
		t.Error("a server of another name is believed")
	}
	if _, err := verify(nil, sum[:], "127.0.0.1", true); err == nil {
		t.Error("a missing certificate is accepted")
	}
}

// TestModules: loadModules loads a device's module after its dependencies, and each module once.
func TestModules(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "modules.dep"), []byte("kernel/a/virtio_net.ko: kernel/a/net-failover.ko kernel/a/failover.ko\nkernel/a/net-failover.ko: kernel/a/failover.ko\nkernel/a/failover.ko:\nkernel/e1000.ko:\n"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "modules.alias"), []byte("# made\nalias virtio:d00000001v* virtio_net\nalias pci:v00008086d0000100Esv*sd*bc*sc*i* e1000\nalias pci:v*d* gone\n"), 0o644))
	m := testkit.Value(OpenModules(dir))(t)
	var inserted []string
	m.insert = func(file string) error {
		inserted = append(inserted, filepath.Base(file))
		return nil
	}
	for _, name := range []string{"virtio:d00000001v00001AF4", "net_failover", "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00", "pci:v00001234d00001111sv0", "nothing"} {
		testkit.Must(t, m.Load(name))
	}
	if want := []string{"failover.ko", "net-failover.ko", "virtio_net.ko", "e1000.ko"}; !slices.Equal(inserted, want) {
		t.Errorf("%v, not %v", inserted, want)
	}
	_, err := OpenModules(filepath.Join(dir, "none"))
	testkit.Fails(t, err, fail.NotFound)
}

// TestAsk: ask repeats its request until the server agrees, and logs the reason for the wait.
func TestAsk(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/install-authorization/uuid=u&mac=52-54-00-00-00-01" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "in maintenance\n")
	}))
	t.Cleanup(s.Close)
	var said []string
	m := Machine{Server: s.URL, HTTP: s.Client(), Discovery: &facts.Discovery{Boot: facts.BootInfo{UUID: "u", MAC: "52:54:00:00:00:01"}}, Say: func(text string) { said = append(said, text) }}
	granted, words, err := authorized(t.Context(), m)
	if granted || err != nil || words != "in maintenance" {
		t.Errorf("%v, %q, %v", granted, words, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = ask(ctx, m)
	testkit.Fails(t, err, fail.NotReady, "may be installed")
	if !slices.Contains(said, "not installed yet: in maintenance") {
		t.Errorf("%q", said)
	}
	m.Discovery.Boot.UUID = "other"
	if _, _, err := authorized(t.Context(), m); err == nil {
		t.Error("a server that knows no such route grants")
	}
}

// TestInWords: the text of an error includes its remedy.
func TestInWords(t *testing.T) {
	got := inWords(fail.New(fail.NotReady, "no address").Do("look at the switch"))
	if !strings.Contains(got, "no address") || !strings.HasSuffix(got, "(look at the switch)") {
		t.Error(got)
	}
	b := &boot{}
	b.say("one\ntwo")
	if !slices.Equal(b.said(), []string{"one", "two"}) {
		t.Errorf("%q", b.said())
	}
}
