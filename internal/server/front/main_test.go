package front

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestMalformedBodies: a body that the client broke is the client's mistake; a main process that is away is not.
func TestMalformedBodies(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "requests")
	l := testkit.Value(net.Listen("unix", socket))(t)
	main := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data, err := io.ReadAll(r.Body); err == nil {
			fmt.Fprint(w, len(data))
		}
	}))
	main.Listener = l
	main.Start()
	facing := httptest.NewServer(NewMain(Settings{Requests: socket}))
	defer facing.Close()
	ask := func(body string) string {
		t.Helper()
		c := testkit.Value(net.Dial("tcp", facing.Listener.Addr().String()))(t)
		defer c.Close()
		testkit.Value(fmt.Fprintf(c, "POST /discovery HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%s", body))(t)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		line, _, _ := strings.Cut(string(testkit.Value(io.ReadAll(c))(t)), "\r\n")
		return line
	}
	for body, want := range map[string]string{
		"3\r\nabc\r\n0\r\n\r\n": "200 OK", "-1\r\nabc\r\n0\r\n\r\n": "400 Bad Request", "3\r\nabcdef\r\n0\r\n\r\n": "400 Bad Request", "ffffffffffffffffff\r\nabc": "400 Bad Request",
	} {
		if got := ask(body); got != "HTTP/1.1 "+want {
			t.Errorf("%q: %s", body, got)
		}
	}
	main.Close()
	if got := ask("3\r\nabc\r\n0\r\n\r\n"); got != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("without the main process: %s", got)
	}
}
