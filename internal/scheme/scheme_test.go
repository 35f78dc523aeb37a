package scheme

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// raw serves connections with do, as TLS with conf if that is not nil.
func raw(t *testing.T, conf *tls.Config, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c)
			}()
		}
	}()
	return l.Addr().String()
}

// TestMixedUp: each way in which a service answers the other scheme gives the same sentence, and a kind that nothing waits for.
func TestMixedUp(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	plain, secure := httptest.NewServer(ok), httptest.NewTLSServer(ok)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog, plain.Config.ErrorLog = nil, nil
	old := raw(t, nil, func(c net.Conn) { // as Python's http.server: an error in HTTP 0.9 for what it does not understand
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil && strings.Contains(line, "HTTP/1") {
			_, _ = io.WriteString(c, "HTTP/1.0 501 Unsupported method\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "<!DOCTYPE HTML>")
	})
	closing := raw(t, secure.TLS, func(c net.Conn) { _, _ = io.ReadAll(c) }) // resets a connection that does not begin with TLS
	nginx := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "The plain HTTP request was sent to HTTPS port", http.StatusBadRequest)
	}))
	t.Cleanup(nginx.Close)
	ssh := raw(t, nil, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n") })

	host := func(s string) string { return s[strings.Index(s, "//")+2:] }
	for name, c := range map[string]struct{ url, speaks string }{
		"https to Go's http":            {"https://" + host(plain.URL), "http"},
		"https to an old http server":   {"https://" + old, "http"},
		"http to Go's https":            {"http://" + host(secure.URL), "https"},
		"http to TLS that closes":       {"http://" + closing, "https"},
		"http":                          {plain.URL, ""},
		"https":                         {secure.URL, ""},
		"a 400 about https without TLS": {nginx.URL, ""},
		"https to neither":              {"https://" + ssh, ""},
		"http to neither":               {"http://" + ssh, ""},
		"nothing there":                 {"https://127.0.0.1:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := http.DefaultTransport.(*http.Transport).Clone()
			tr.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			client := &http.Client{Transport: Watch(tr)}
			defer client.CloseIdleConnections()
			res, err := client.Get(c.url)
			if res != nil {
				defer res.Body.Close()
				if body, err := io.ReadAll(res.Body); err != nil || len(body) == 0 {
					t.Errorf("the body is lost: %q, %v", body, err)
				}
			}
			said := err != nil && strings.Contains(err.Error(), "but the service speaks")
			if said != (c.speaks != "") {
				t.Fatal(err)
			}
			if !said {
				return
			}
			u, _ := url.Parse(c.url)
			if want := "begins with " + u.Scheme + "://, but the service speaks " + c.speaks; !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			wrapped := fail.Wrap(fail.Unreachable, err, "ask")
			if k := fail.KindOf(wrapped); k != fail.Invalid || fail.Waitable(wrapped) {
				t.Errorf("kind %s", k)
			}
		})
	}
}

// TestProxied: a request through a proxy shows nothing of the service, and nothing is sent past the proxy.
func TestProxied(t *testing.T) {
	asked := make(chan struct{}, 8)
	behind := raw(t, nil, func(net.Conn) { asked <- struct{}{} })
	proxy := raw(t, nil, func(c net.Conn) { _, _ = bufio.NewReader(c).ReadString('\n') })
	client := &http.Client{Transport: Watch(&http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})})}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+behind, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err == nil {
		res.Body.Close()
	}
	if err == nil || strings.Contains(err.Error(), "speaks") || len(asked) > 0 {
		t.Errorf("%v, asked %d times", err, len(asked))
	}
}
