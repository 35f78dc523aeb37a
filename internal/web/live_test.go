package web

import (
	"bufio"
	"context"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestLive(t *testing.T) {
	s := newSite(t)
	s.discover(1)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	req := testkit.Value(http.NewRequestWithContext(ctx, "GET", s.url+"/ui/live?of="+url.QueryEscape("/ui/machines"), nil))(t)
	req.AddCookie(&http.Cookie{Name: cookieName, Value: s.session(s.reader)})
	resp := testkit.Value(s.client.Do(req))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" && lines.Text() != "data: {}" {
				return lines.Text()
			}
		}
		return ""
	}
	for range 3 {
		if got := next(); got != "event: here" {
			t.Fatalf("nothing has changed, and it says %q", got)
		}
	}
	s.discover(2)
	for {
		got := next()
		if got == "event: change" {
			break
		}
		if got != "event: here" {
			t.Fatalf("a machine came, and it says %q: %v", got, lines.Err())
		}
	}
	testkit.Must(t, s.store.RevokeToken(t.Context(), s.readerID))
	said := 0
	for got := next(); got != ""; got = next() {
		if said++; said > 1 { // the first event may come from a look that began before
			t.Errorf("the token was revoked, and it says %q", got)
		}
	}
	if ctx.Err() != nil {
		t.Error("the stream goes on after the token was revoked")
	}
}

// TestLiveFromThePageOn: a change after the page was shown and before its stream began is reported at once.
func TestLiveFromThePageOn(t *testing.T) {
	s := newSite(t)
	s.discover(1)
	_, rest, _ := strings.Cut(s.ask("GET", "/ui/machines", s.reader, nil).body, `data-live="`)
	at, _, _ := strings.Cut(rest, `"`)
	first := func() string {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		req := testkit.Value(http.NewRequestWithContext(ctx, "GET", s.url+html.UnescapeString(at), nil))(t)
		req.AddCookie(&http.Cookie{Name: cookieName, Value: s.session(s.reader)})
		resp := testkit.Value(s.client.Do(req))(t)
		defer resp.Body.Close()
		return testkit.Value(bufio.NewReader(resp.Body).ReadString('\n'))(t)
	}
	if got := first(); got != "event: here\n" {
		t.Errorf("nothing has changed since, and it says %q", got)
	}
	s.discover(2)
	if got := first(); got != "event: change\n" {
		t.Errorf("a machine came since, and it says %q", got)
	}
}
