package notify

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// secret is a part of the tests' URLs that nothing may show.
const secret = "T0KENx8Zq"

// proxied counts the connections through the proxy of this process, and leads them to the address in toProxy.
var (
	proxied atomic.Int64
	toProxy atomic.Value
)

// TestMain sets a proxy before the first request: net/http reads the environment once. Requests to loopback do not use it.
func TestMain(m *testing.M) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go tunnel(c)
		}
	}()
	os.Setenv("HTTPS_PROXY", "http://ann:"+secret+"@"+l.Addr().String())
	os.Unsetenv("NO_PROXY")
	os.Unsetenv("no_proxy")
	os.Exit(m.Run())
}

// tunnel answers one CONNECT.
func tunnel(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil || req.Method != http.MethodConnect {
		return
	}
	proxied.Add(1)
	to, _ := toProxy.Load().(string)
	if to == "" {
		fmt.Fprint(c, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
		return
	}
	there, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer there.Close()
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(there, r) }()
	_, _ = io.Copy(c, there)
}

func hook(format, address string) *sealed {
	return &sealed{Webhook: Webhook{Name: "ops", Format: format, Host: "receiver"}, ID: "1", URL: address}
}

func hello() *Message {
	return &Message{Version: 1, Event: "test", State: open, Time: time.Unix(1700000000, 0).UTC(), Summary: "hello"}
}

// TestAnswers: what receivers answer, well and badly, as their users report it.
func TestAnswers(t *testing.T) {
	page := "<!DOCTYPE html><html><body>Sign in at https://hooks/services/" + secret + "</body></html>"
	for name, c := range map[string]struct {
		format, kind, body string
		code               int
		header             map[string]string
		ok, retry          bool
		after              time.Duration
		says               string
	}{
		"slack takes it":                  {format: "slack", code: 200, body: "ok", ok: true, says: "200 OK: ok"},
		"slack takes it with a newline":   {format: "slack", code: 200, body: "ok\n", ok: true},
		"slack refuses with 400":          {format: "slack", code: 400, body: "invalid_payload", says: "invalid_payload"},
		"slack refuses with 200":          {format: "slack", code: 200, body: "invalid_payload", says: "does not answer as a webhook of Slack"},
		"slack has no such webhook":       {format: "slack", code: 404, body: "no_service", says: "may have been revoked"},
		"a chat server answers JSON":      {format: "slack", code: 200, body: `{"success":true}`, ok: true},
		"a chat server refuses with 200":  {format: "slack", code: 200, body: `{"ok":false,"error":"channel_not_found"}`, says: "channel_not_found"},
		"slack limits with 429":           {format: "slack", code: 429, body: "rate_limited", header: map[string]string{"Retry-After": "7"}, retry: true, after: 7 * time.Second},
		"slack limits with 200":           {format: "slack", code: 200, body: "rate_limited", header: map[string]string{"Retry-After": "2"}, retry: true, after: 2 * time.Second},
		"a page in place of slack":        {format: "slack", code: 200, body: page, header: map[string]string{"Content-Type": "text/html"}, says: "with a page"},
		"teams takes it with 202":         {format: "teams", code: 202, ok: true, says: "202 Accepted"},
		"teams' workflow answers itself":  {format: "teams", code: 200, body: "posted", ok: true},
		"teams' connector takes it":       {format: "teams", code: 200, body: "1", ok: true},
		"teams did not post it":           {format: "teams", code: 200, body: "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413 with ContextId x.", says: "did not post"},
		"teams limits with 200":           {format: "teams", code: 200, body: "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId x.", retry: true},
		"teams did not post, no number":   {format: "teams", code: 200, body: "Webhook message delivery failed with error: x", says: "did not post"},
		"a page in place of teams":        {format: "teams", code: 200, body: page, says: "does not answer as a workflow"},
		"teams lacks the workflow":        {format: "teams", code: 400, body: `{"error":{"code":"WorkflowNotFound"}}`, says: "WorkflowNotFound"},
		"json takes it":                   {format: "json", code: 204, ok: true},
		"json takes it with a page":       {format: "json", code: 200, body: page, ok: true},
		"a proxy's page of 502":           {format: "json", code: 502, body: page, retry: true, says: "502 Bad Gateway, with a page"},
		"away for a date":                 {format: "json", code: 503, header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:00:30 GMT", "Date": "Mon, 30 Nov 2026 12:00:00 GMT"}, retry: true, after: 30 * time.Second},
		"away until a date in the past":   {format: "json", code: 503, header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:00:00 GMT", "Date": "Mon, 30 Nov 2026 12:00:30 GMT"}, retry: true},
		"away for ever":                   {format: "json", code: 503, header: map[string]string{"Retry-After": "99999999999999999999"}, retry: true, after: longest},
		"away for less than nothing":      {format: "json", code: 503, header: map[string]string{"Retry-After": "-5"}, retry: true},
		"away for no number":              {format: "json", code: 503, header: map[string]string{"Retry-After": "soon"}, retry: true},
		"away for NaN":                    {format: "json", code: 503, header: map[string]string{"Retry-After": "NaN"}, retry: true},
		"leads elsewhere":                 {format: "json", code: 308, header: map[string]string{"Location": "https://elsewhere.example/" + secret}, says: "https://elsewhere.example"},
		"repeats the path":                {format: "json", code: 400, body: "no route for /services/" + secret + "?sig=" + secret, says: "no route for …"},
		"escape sequences":                {format: "json", code: 400, body: "\x1b]0;owned\x07bad\r\nline\u202e", says: "bad line"},
		"an endless answer":               {format: "json", code: 400, body: strings.Repeat("x", 1<<20), says: "xxx…"},
		"a status without a name":         {format: "json", code: 599, retry: true, says: "599"},
		"wants another kind of request":   {format: "json", code: 405, says: "405 Method Not Allowed"},
		"a receiver that wants a sign-in": {format: "json", code: 401, says: "may have been revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if r.Header.Get("Content-Type") != "application/json; charset=utf-8" || r.Method != http.MethodPost {
					t.Errorf("%s %v", r.Method, r.Header)
				}
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			}))
			defer srv.Close()
			said, after, err := hook(c.format, srv.URL+"/services/"+secret+"?sig="+secret).post(t.Context(), hello())
			if (err == nil) != c.ok || (fail.KindOf(err) == fail.Unreachable) != c.retry || after != c.after || asked != 1 {
				t.Errorf("after %d requests: %q, wait %s, %v (%s)", asked, said, after, err, fail.KindOf(err))
			}
			text := fmt.Sprint(said, " ", err)
			if strings.Contains(text, secret) || strings.ContainsAny(text, "\x1b\x07\r\n\u202e") || len(text) > 700 {
				t.Errorf("it shows %q", text)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("it says %q, not %q", text, c.says)
			}
		})
	}
}

// TestNoAnswer: receivers that hang, break off, or are not there. Errors have no part of the URL but the host.
func TestNoAnswer(t *testing.T) {
	hangs := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("how") {
		case "silent":
			<-hangs
		case "slow": // a body without an end
			w.(http.Flusher).Flush()
			<-hangs
		case "abort":
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	defer close(hangs)
	closed := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	testkit.Must(t, closed.Close())
	for address, says := range map[string]string{
		srv.URL + "/" + secret + "?how=silent":                        "no answer within",
		srv.URL + "/" + secret + "?how=slow":                          "no answer within",
		srv.URL + "/" + secret + "?how=abort":                         "EOF",
		"http://" + closed.Addr().String() + "/" + secret:             "refused",
		"https://receiver.invalid/" + secret:                          "Proxy Authentication Required",
		strings.Replace(srv.URL, "http:", "https:", 1) + "/" + secret: "http://", // the scheme is wrong
	} {
		limit := time.Minute
		if strings.Contains(says, "no answer") {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, _, err := hook("json", address).post(ctx, hello())
		cancel()
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestInterrupted: a test message that its user stops is not a receiver that does not answer.
func TestInterrupted(t *testing.T) {
	over := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop(); <-over }))
	defer srv.Close()
	defer close(over)
	_, _, err := hook("json", srv.URL).post(ctx, hello())
	testkit.Fails(t, err, fail.Interrupted, "send the message")
}

// TestTLS: a receiver behind a private authority is believed with --ca-file alone, and nothing else is believed then.
func TestTLS(t *testing.T) {
	var user, password string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { user, password, _ = r.BasicAuth() }))
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	defer srv.Close()
	s := hook("json", strings.Replace(srv.URL, "https://", "https://ann:"+secret+"@", 1))
	_, _, err := s.post(t.Context(), hello())
	testkit.Fails(t, err, fail.Unreachable, "unknown authority", "--ca-file")
	if strings.Contains(err.Error(), secret) {
		t.Errorf("it shows the password: %v", err)
	}
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	_, _, err = s.post(t.Context(), hello())
	testkit.Must(t, err)
	if user != "ann" || password != secret {
		t.Errorf("the receiver got %q, %q", user, password)
	}
	toProxy.Store(srv.Listener.Addr().String())
	defer toProxy.Store("")
	before := proxied.Load()
	s.URL = "https://example.com/" + secret // the test server's certificate has this name
	_, _, err = s.post(t.Context(), hello())
	testkit.Must(t, err)
	if proxied.Load() != before+1 {
		t.Errorf("%d connections went through the proxy", proxied.Load()-before)
	}
	s.URL = "https://other.example/"
	_, _, err = s.post(t.Context(), hello())
	testkit.Fails(t, err, fail.Unreachable, "other.example")
}

func TestURLs(t *testing.T) {
	for _, bad := range []string{"", " \n", "hooks.slack.com/" + secret, "http://hooks.slack.com/" + secret, "ftp://x/" + secret, "https:///" + secret, "https:" + secret, "https://x/" + secret + "\nhttps://y/",
		`"https://x/` + secret + `"`, "https://x/%zz" + secret, "<https://x/" + secret + ">", "https://x/" + strings.Repeat(secret, 1000), "http://127.0.0.1.example/" + secret, "http://10.0.0.1/" + secret, "https://x:port/" + secret} {
		_, err := parseURL([]byte(bad))
		testkit.Fails(t, err, fail.Invalid, "the webhook's URL")
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the URL: %v", err)
		}
	}
	for in, host := range map[string]string{"https://hooks.slack.com/services/T/B/x\n": "hooks.slack.com", "\ufeffhttps://x:8443/a?b=c#d\r\n": "x:8443", "https://ann:p@x/": "x", "http://127.0.0.1:80/": "127.0.0.1:80",
		"http://[::1]/": "[::1]", "http://localhost:1/": "localhost:1", "HTTPS://X/": "X"} {
		u := testkit.Value(parseURL([]byte(in)))(t)
		if u.Host != host || u.Fragment != "" {
			t.Errorf("%q: %s", in, u)
		}
	}
}
