package serving

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// openUI runs naupegos ui on a new store and returns its link. end stops it as Ctrl-C does, and returns its error.
func openUI(t *testing.T) (link string, end func() error) {
	t.Helper()
	at := store.Location{Dir: t.TempDir()}
	out, w := io.Pipe()
	h := Host{Out: w, Err: io.Discard, Version: "test", OpenStore: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, at) },
		Options: func(operate.Asked, work.Need) operate.Options { return operate.Options{ReadOnly: true} }, Look: func(string) operate.Options { return operate.Options{ReadOnly: true} }}
	c := NewUI(h)
	c.SetArgs([]string{"--no-open"})
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(t.Context()); _ = w.Close() }()
	lines := bufio.NewScanner(out)
	for link == "" && lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			link = text
		}
	}
	if link == "" {
		t.Fatalf("no link was printed: %v", <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return link, func() error {
		self := testkit.Value(os.FindProcess(os.Getpid()))(t)
		testkit.Must(t, self.Signal(os.Interrupt))
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			t.Fatal("Ctrl-C does not end naupegos ui")
		}
		return nil
	}
}

// visit opens the link as a browser does, and returns the final page.
func visit(t *testing.T, c *http.Client, link string) (code int, body string) {
	t.Helper()
	page, key, _ := strings.Cut(link, "#")
	opened := testkit.Value(c.Get(page))(t)
	_, _ = io.Copy(io.Discard, opened.Body)
	testkit.Must(t, opened.Body.Close())
	r := testkit.Value(c.PostForm(page, url.Values{"key": {key}}))(t)
	defer r.Body.Close()
	return r.StatusCode, string(testkit.Value(io.ReadAll(r.Body))(t))
}

func TestUISignsInWithinTwoSeconds(t *testing.T) {
	began := time.Now()
	link, end := openUI(t)
	page, key, _ := strings.Cut(link, "#")
	if strings.Contains(page, key) || len(key) < 40 {
		t.Errorf("the key is not in the fragment alone: %s", page)
	}

	// These requests must not use the link up: one by a browser that did not open it, one with another host's name, and a guessed key.
	bare := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r := testkit.Value(bare.PostForm(page, url.Values{"key": {key}}))(t)
	testkit.Must(t, r.Body.Close())
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a browser that did not open the link: %s", r.Status)
	}
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil))(t)
	req.Host = "evil.example:" + req.URL.Port()
	req.Header.Set("Accept", "text/html")
	r = testkit.Value(bare.Do(req))(t)
	testkit.Must(t, r.Body.Close())
	if r.StatusCode != http.StatusMisdirectedRequest || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("another host's name: %s, %s", r.Status, r.Header.Get("Content-Type"))
	}

	jar := testkit.Value(cookiejar.New(nil))(t)
	c := &http.Client{Jar: jar}
	code, body := visit(t, c, link)
	took := time.Since(began)
	if code != http.StatusOK || !strings.Contains(body, "Sign out") || !strings.Contains(body, "by naupegos ui") {
		t.Fatalf("%d: %s", code, body)
	}
	t.Logf("FIGURE signed in %d ms after the command", took.Milliseconds())
	if took > 2*time.Second && testkit.Full() {
		t.Errorf("signing in took %s, want 2 s", took)
	}
	if code, body := visit(t, &http.Client{Jar: testkit.Value(cookiejar.New(nil))(t)}, link); code != http.StatusUnauthorized || !strings.Contains(body, "works once") {
		t.Errorf("the link works twice: %d %s", code, body)
	}
	testkit.Must(t, end())
	if _, err := c.Get(page); err == nil {
		t.Error("the server still answers after Ctrl-C")
	}
}

// TestUICookieIsStrict: other sites and scripts can't use the session cookie.
func TestUICookieIsStrict(t *testing.T) {
	link, end := openUI(t)
	page, key, _ := strings.Cut(link, "#")
	c := &http.Client{Jar: testkit.Value(cookiejar.New(nil))(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r := testkit.Value(c.Get(page))(t)
	testkit.Must(t, r.Body.Close())
	r = testkit.Value(c.PostForm(page, url.Values{"key": {key}}))(t)
	testkit.Must(t, r.Body.Close())
	if r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status)
	}
	seen := false
	for _, k := range r.Cookies() {
		if k.Value == "" {
			continue
		}
		seen = true
		if !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "/" || !strings.HasPrefix(k.Name, "naupegos-") {
			t.Errorf("%+v", k)
		}
	}
	if !seen {
		t.Error("there is no session")
	}
	other := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(page, "open")+"logout", nil))(t)
	other.Header.Set("Sec-Fetch-Site", "cross-site")
	r = testkit.Value(c.Do(other))(t)
	testkit.Must(t, r.Body.Close())
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("another site signs the user out: %s", r.Status)
	}
	testkit.Must(t, end())
}
