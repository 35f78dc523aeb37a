//go:build integration

package bundle

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// squid starts squid on loopback with these rules and returns its address.
func squid(t *testing.T, rules string) (at *url.URL, log string) {
	t.Helper()
	if _, err := exec.LookPath("squid"); err != nil {
		t.Skip("squid is not installed")
	}
	dir := t.TempDir()
	testkit.Must(t, os.Chmod(dir, 0o777)) // squid gives up root
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	testkit.Must(t, l.Close())
	log = filepath.Join(dir, "access.log")
	conf := filepath.Join(dir, "squid.conf")
	testkit.Must(t, os.WriteFile(conf, fmt.Appendf(nil, "http_port %s\npid_filename none\ncache_log %s/cache.log\naccess_log stdio:%s\nlogfile_rotate 0\ncache deny all\ncoredump_dir %s\nshutdown_lifetime 1 seconds\n%s\n",
		address, dir, log, dir, rules), 0o644))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "squid", "--foreground", "-f", conf)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			return &url.URL{Scheme: "http", Host: address}, log
		}
		if time.Now().After(deadline) {
			out, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
			t.Fatalf("squid does not listen: %v\n%s", err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestDownloadThroughSquid downloads by CONNECT through a real squid, which logs it, and names a squid that refuses.
func TestDownloadThroughSquid(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer origin.Close()
	fetch := func(at *url.URL) (string, error) {
		f := newFetcher()
		tr := f.client.Transport.(*http.Transport)
		tr.Proxy = http.ProxyURL(at)
		tr.TLSClientConfig = origin.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		return f.text(t.Context(), origin.URL)
	}
	open, log := squid(t, "http_access allow all")
	got, err := fetch(open)
	if err != nil || got != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		seen, _ := os.ReadFile(log)
		if strings.Contains(string(seen), "CONNECT "+strings.TrimPrefix(origin.URL, "https://")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("squid saw no CONNECT: %s", seen)
		}
		time.Sleep(50 * time.Millisecond)
	}
	closed, _ := squid(t, "acl CONNECT method CONNECT\nhttp_access deny CONNECT\nhttp_access allow all")
	_, err = fetch(closed)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "the proxy "+closed.Host+" does not connect to") {
		t.Fatalf("a proxy that refuses CONNECT: %v", err)
	}
	t.Log(err)
}
