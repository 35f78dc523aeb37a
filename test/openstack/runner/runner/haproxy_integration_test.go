//go:build integration

package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// backend starts a real HTTP server and returns it with its pool member.
func backend(t *testing.T, name string) (*httptest.Server, member) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(srv.Close)
	host, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return srv, member{ID: name, Address: host, Port: n, Weight: 1}
}

func oneListener(port int, allowed []string, ms ...member) []balancer {
	return []balancer{{Name: "it", VIP: netip.MustParseAddr("127.0.0.1"), Listeners: []listener{{
		ID: "l", Protocol: "TCP", Port: port, Allowed: allowed, Pool: &pool{
			ID: "p", Protocol: "TCP", Method: "ROUND_ROBIN", Members: ms,
			Monitor: &monitor{Type: "HTTP", Delay: 100 * time.Millisecond, Timeout: time.Second, Up: 1, Down: 1, Path: "/"},
		},
	}}}}
}

// ask makes one request on a new connection.
func ask(port int) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// TestHAProxyFollows reloads a real HAProxy several times while requests go on: no request may fail.
func TestHAProxyFollows(t *testing.T) {
	var noted []process
	h := &haproxy{dir: t.TempDir(), note: func(p process) error { noted = append(noted, p); return nil }}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	apply := func(all []balancer) bool {
		t.Helper()
		text := ""
		if all != nil {
			text, _ = proxyConfig(h.socket(), all)
		}
		changed, err := h.apply(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	port := testkit.FreePort(t)
	_, a := backend(t, "a")
	srvB, b := backend(t, "b")
	apply(oneListener(port, nil, a))
	if got, err := ask(port); err != nil || got != "a" {
		t.Fatalf("%q %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := ask(port); err != nil {
				ended <- fmt.Errorf("request %d: %w", asked.Load(), err)
				return
			}
			asked.Add(1)
		}
		ended <- nil
	}()
	for i := range 10 {
		ms := []member{a, b}[:1+(i+1)%2]
		if !apply(oneListener(port, nil, ms...)) && i > 0 {
			t.Errorf("round %d changed nothing", i)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d requests over 10 reloads", asked.Load())
	both := oneListener(port, nil, a, b)
	apply(both)
	if apply(both) {
		t.Error("the same configuration is applied a second time")
	}
	eventually(t, "both members answer", port, map[string]bool{"a": true, "b": true})
	srvB.Close()
	eventually(t, "a dead member is out", port, map[string]bool{"a": true})
	apply(oneListener(port, []string{"203.0.113.0/24"}, a))
	eventually(t, "no client outside of the allowed CIDRs is served", port, map[string]bool{"no answer": true})
	master := noted[0]
	if !master.alive() || len(noted) != 1 {
		t.Errorf("HAProxy was started %d times", len(noted))
	}
	bad := oneListener(port, []string{"not-a-network"}, a)
	text, _ := proxyConfig(h.socket(), bad)
	if _, err := h.apply(t.Context(), text); err == nil || !strings.Contains(err.Error(), "not-a-network") {
		t.Errorf("a configuration that HAProxy refuses: %v", err)
	}
	if !master.alive() {
		t.Error("HAProxy stopped after it refused a configuration")
	}
	apply(nil)
	if master.alive() {
		t.Error("HAProxy still runs without a load balancer")
	}
}

// eventually waits until exactly the wanted members answer twenty requests. Just after a reload the kernel still passes some connections to the
// old HAProxy process.
func eventually(t *testing.T, what string, port int, want map[string]bool) {
	t.Helper()
	await(t, time.Minute, what, func() error {
		var last error
		got := map[string]bool{}
		for range 20 {
			name, err := ask(port)
			if err != nil {
				name, last = "no answer", err
			}
			got[name] = true
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("answers come from %v: %w", got, cmp.Or(last, errors.New("all were answered")))
		}
		return nil
	})
}
