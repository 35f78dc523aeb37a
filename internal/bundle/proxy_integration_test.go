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
	testkit.Must(t, os.Chmod(filepath.Dir(dir), 0o755)) // squid gives up root, and must reach the directory
	testkit.Must(t, os.Chmod(dir, 0o777))
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	log = filepath.Join(dir, "access.log")
	conf := filepath.Join(dir, "squid.conf")
	testkit.Must(t, os.WriteFile(conf, fmt.Appendf(nil, "http_port %s\npid_filename none\ncache_log %s/cache.log\naccess_log stdio:%s\nlogfile_rotate 0\nvisible_hostname squid.test\nmax_filedescriptors 1024\npinger_enable off\ncache deny all\ncoredump_dir %s\nshutdown_lifetime 1 seconds\n%s\n",
		address, dir, log, dir, rules), 0o644))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "squid", "-N", "-f", conf)
	var said testkit.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	testkit.Until(t, 2*time.Minute, 50*time.Millisecond, func() error {
		select {
		case err := <-ended:
			out, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
			t.Fatalf("squid has ended: %v\n%s\n%s", err, &said, out)
		default:
		}
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return fmt.Errorf("squid does not listen: %w\n%s", err, &said)
		}
		return c.Close()
	})
	return &url.URL{Scheme: "http", Host: address}, log
}

// TestDownloadThroughSquid downloads by CONNECT through a real squid, which logs it, and names a squid that refuses.
func TestDownloadThroughSquid(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer origin.Close()
	fetch := func(at *url.URL) (string, error) {
		f := newFetcher()
		tr := f.transport
		tr.Proxy = http.ProxyURL(at)
		tr.TLSClientConfig = origin.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		defer tr.CloseIdleConnections() // squid logs a tunnel when it ends
		return f.text(t.Context(), origin.URL)
	}
	open, log := squid(t, "http_access allow all")
	got, err := fetch(open)
	if err != nil || got != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
		seen, _ := os.ReadFile(log)
		if !strings.Contains(string(seen), "CONNECT "+strings.TrimPrefix(origin.URL, "https://")) {
			return fmt.Errorf("squid saw no CONNECT: %s", seen)
		}
		return nil
	})
	closed, _ := squid(t, "acl CONNECT method CONNECT\nhttp_access deny CONNECT\nhttp_access allow all")
	_, err = fetch(closed)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "the proxy "+closed.Host+" does not connect to") {
		t.Fatalf("a proxy that refuses CONNECT: %v", err)
	}
	t.Log(err)
}
