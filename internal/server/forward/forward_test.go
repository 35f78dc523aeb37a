package forward

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// forwarding runs a sink on a store with entries, until the test ends.
func forwarding(t *testing.T, st store.Store, to string) {
	t.Helper()
	s := testkit.Value(Open(to, st, slog.New(slog.DiscardHandler)))(t)
	s.wait = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { stop(); testkit.Must(t, <-done) })
}

func opened(t *testing.T) store.Store {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	return st
}

func note(t *testing.T, st store.Store, action, outcome string) {
	t.Helper()
	testkit.Must(t, st.Note(t.Context(), store.AuditEntry{At: time.Now(), Who: `ann "]\ (1)`, Via: "token", Session: "1", From: "192.0.2.1", Action: action, Outcome: outcome}))
}

// got waits for a message.
func got(t *testing.T, c <-chan string) string {
	t.Helper()
	select {
	case m := <-c:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		return ""
	}
}

// TestSyslog: RFC 5424 messages arrive in order, including entries from before the start and from a downtime of the sink.
func TestSyslog(t *testing.T) {
	st := opened(t)
	note(t, st, "POST /before", "done")
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	messages := make(chan string, 100)
	serve := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for {
				size, err := r.ReadString(' ')
				if err != nil {
					break
				}
				n, err := strconv.Atoi(strings.TrimSpace(size))
				if err != nil {
					messages <- "no length: " + size
					break
				}
				m := make([]byte, n)
				if _, err := io.ReadFull(r, m); err != nil {
					break
				}
				messages <- string(m)
			}
			_ = c.Close()
		}
	}
	go serve(l)
	forwarding(t, st, "syslog://"+address)
	m := got(t, messages)
	for _, want := range []string{"<109>1 ", " naupegos ", ` audit [naupegos@32473 seq="1" who="ann \"\]\\ (1)" via="token" session="1"`, `action="POST /before"`, `hash="`, `POST /before: done`} {
		if !strings.Contains(m, want) {
			t.Errorf("%q lacks %q", m, want)
		}
	}
	note(t, st, "POST /x", "refused: Forbidden")
	if m := got(t, messages); !strings.HasPrefix(m, "<108>1 ") || !strings.Contains(m, `seq="2"`) {
		t.Errorf("next message: %q", m)
	}
	testkit.Must(t, l.Close())
	for i := range 5 {
		note(t, st, fmt.Sprint("POST /away/", i), "done")
	}
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	defer l.Close()
	go serve(l)
	for i := range 5 {
		if m := got(t, messages); !strings.Contains(m, fmt.Sprint("POST /away/", i, ": done")) {
			t.Errorf("next message: %q", m)
		}
	}
}

// TestOTLP: entries that a collector refuses are sent again.
func TestOTLP(t *testing.T) {
	st := opened(t)
	var mu sync.Mutex
	asked := 0
	messages := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		first := asked == 1
		mu.Unlock()
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var body struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct {
						TimeUnixNano string
						Body         struct{ StringValue string }
					}
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/logs" {
			messages <- fmt.Sprint("bad request: ", err, r.URL.Path)
			return
		}
		for _, rec := range body.ResourceLogs[0].ScopeLogs[0].LogRecords {
			messages <- rec.Body.StringValue
		}
	}))
	defer srv.Close()
	note(t, st, "POST /a", "done")
	note(t, st, "POST /b", "done")
	forwarding(t, st, "otlp+"+srv.URL)
	for _, want := range []string{"POST /a: done", "POST /b: done"} {
		if m := got(t, messages); !strings.HasSuffix(m, want) {
			t.Errorf("came %q, want %q", m, want)
		}
	}
}

func TestSinks(t *testing.T) {
	for _, to := range []string{"", "log.example.org", "http://x", "syslog://", "syslog://x?transport=sctp", "syslogs://x?transport=udp", "otlp+http://", "syslog://ann:secret@x", "syslog://x/path", "otlp+https://x?y=z", "::"} {
		_, err := Open(to, nil, slog.New(slog.DiscardHandler))
		testkit.Fails(t, err, fail.Invalid, "--audit-to")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	for _, to := range []string{"syslog://x:514", "syslog://x?transport=udp", "syslogs://x", "otlp+http://x:4318", "otlp+https://x/custom"} {
		testkit.Value(Open(to, nil, slog.New(slog.DiscardHandler)))(t)
	}
}
