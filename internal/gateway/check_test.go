package gateway

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCheckScript: the script that keepalived runs succeeds only if the health page answers 200.
func TestCheckScript(t *testing.T) {
	for name, tc := range map[string]struct {
		says string
		ok   bool
	}{
		"ready":       {"HTTP/1.0 200 OK\r\ncache-control: no-cache\r\n\r\n<html>", true},
		"no server":   {"HTTP/1.0 503 Service unavailable\r\n\r\n", false},
		"no protocol": {"200\r\n", false},
		"it ends":     {"", false},
		"it hangs":    {"…", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testkit.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				request := make([]byte, len("GET /healthz HTTP/1.0\r\n\r\n"))
				if _, err := io.ReadFull(c, request); err != nil || string(request) != "GET /healthz HTTP/1.0\r\n\r\n" {
					t.Errorf("it asks %q: %v", request, err)
				}
				if tc.says == "…" {
					_ = c.SetReadDeadline(time.Now().Add(time.Minute))
					_, _ = io.Copy(io.Discard, c) // until the script has given up
					return
				}
				_, _ = io.WriteString(c, tc.says)
			}()
			err := runCheck(t, l.Addr().(*net.TCPAddr).Port)
			if (err == nil) != tc.ok {
				t.Errorf("the script ends with %v", err)
			}
		})
	}
	l := testkit.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	testkit.Must(t, l.Close())
	if runCheck(t, l.Addr().(*net.TCPAddr).Port) == nil {
		t.Error("it succeeds although nothing listens")
	}
}

func runCheck(t *testing.T, port int) error {
	t.Helper()
	p := params()
	p.StatsPort = port
	script := filepath.Join(t.TempDir(), "check")
	testkit.Must(t, os.WriteFile(script, content(t, testkit.Value(Config(p, p.Nodes[0]))(t), CheckPath), 0o755))
	return exec.CommandContext(t.Context(), "/bin/bash", script).Run()
}
