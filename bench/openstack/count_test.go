package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestCounterCountsWhatPasses(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.String()+" "+r.Host+" "+r.Header.Get("X-Forwarded-For"))
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	through, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return through, nil }}}
	for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPost} {
		req, err := http.NewRequestWithContext(context.Background(), method, server.URL+"/v2/servers/3f1c1a5e-0b0a-4f6e-9d4e-0123456789ab?a=b", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
	taken := c.take()
	if all, reads := sum(taken); all != 3 || reads != 2 {
		t.Errorf("counted %d calls, %d reads; 3 and 2 were made", all, reads)
	}
	var out strings.Builder
	printCalls(&out, taken)
	if got := strings.Fields(out.String()); len(got) != 6 || got[0] != "2" || got[1] != "GET" || !strings.HasSuffix(got[2], "/servers/ID") {
		t.Errorf("prints\n%s", out.String())
	}
	if again := c.take(); len(again) != 0 {
		t.Errorf("%v are counted twice", again)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	if want := "POST /v2/servers/3f1c1a5e-0b0a-4f6e-9d4e-0123456789ab?a=b " + host + " "; len(seen) != 3 || seen[2] != want {
		t.Errorf("the server saw %q, want the last one as %q", seen, want)
	}
}

func TestCounterRefusesWhatItCannotCount(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := http.Get(c.url + "/not/a/proxy/request")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("answers %s", resp.Status)
	}
}

// TestCounterCutsWhatIsNotAnswered: a service that is down must not look like one that answers.
func TestCounterCutsWhatIsNotAnswered(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	through, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return through, nil }}}
	resp, err := client.Get("http://127.0.0.1:1/")
	if err == nil {
		resp.Body.Close()
		t.Errorf("answers %s", resp.Status)
	}
}
