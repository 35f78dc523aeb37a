package registrycheck

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

const good = "Basic bWU6c2VjcmV0LXdvcmQ=" // me:secret-word

// TestCheck names the defect of each endpoint, without the password.
func TestCheck(t *testing.T) {
	var tokens, plain *httptest.Server
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorized := r.Header.Get("Authorization") == good
		switch {
		case strings.HasPrefix(r.URL.Path, "/broken"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/away"):
			http.Redirect(w, r, "https://other.invalid/", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/token/v2/") || r.URL.Path == "/token/":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/give",service="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/by-http/"):
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+plain.URL+`/give?key=secret-word",service="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/both/"):
			w.Header().Add("WWW-Authenticate", `Basic realm="here"`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/give"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/no-realm/"):
			w.Header().Set("WWW-Authenticate", `Bearer realm="/jwt/auth",service="container_registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/basic"), r.URL.Path == "/give":
			if !authorized {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	})
	s := httptest.NewTLSServer(handler)
	defer s.Close()
	tokens = s
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	plain = httptest.NewServer(handler)
	defer plain.Close()
	silent := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	closed := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	for name, c := range map[string]struct {
		e   Endpoint
		why string
	}{
		"open":              {Endpoint{URL: s.URL, CA: ca}, ""},
		"open, slash":       {Endpoint{URL: s.URL + "/", CA: ca}, ""},
		"insecure":          {Endpoint{URL: s.URL, Insecure: true}, ""},
		"plain":             {Endpoint{URL: plain.URL, Insecure: true}, ""},
		"anonymous":         {Endpoint{URL: s.URL + "/token", CA: ca}, ""},
		"basic":             {Endpoint{URL: s.URL + "/basic", CA: ca, Authorization: good}, ""},
		"token":             {Endpoint{URL: s.URL + "/token", CA: ca, Authorization: good}, ""},
		"redirect":          {Endpoint{URL: s.URL + "/away", CA: ca, Authorization: good}, ""},
		"whole path":        {Endpoint{URL: s.URL + "/basic/hub", Whole: true, CA: ca, Authorization: good}, ""},
		"wrong, basic":      {Endpoint{URL: s.URL + "/basic", CA: ca, Authorization: "Basic d3Jvbmctd29yZA=="}, "refuses the credentials"},
		"wrong, token":      {Endpoint{URL: s.URL + "/token", CA: ca, Authorization: "Basic d3Jvbmctd29yZA=="}, "refuses the credentials"},
		"basic and token":   {Endpoint{URL: s.URL + "/both", CA: ca, Authorization: good}, ""},
		"token by http":     {Endpoint{URL: s.URL + "/by-http", CA: ca, Authorization: good}, "its token server, http://127.0.0.1:"},
		"all without TLS":   {Endpoint{URL: plain.URL + "/by-http", Insecure: true, Authorization: good}, ""},
		"wrong, by http":    {Endpoint{URL: plain.URL + "/by-http", Insecure: true, Authorization: "Basic d3Jvbmctd29yZA=="}, "refuses the credentials"},
		"no token server":   {Endpoint{URL: s.URL + "/no-realm", CA: ca, Authorization: good}, "names no token server"},
		"unknown authority": {Endpoint{URL: s.URL}, "unknown authority (set ca)"},
		"another name":      {Endpoint{URL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1), CA: ca}, "another name"},
		"broken":            {Endpoint{URL: s.URL + "/broken", CA: ca}, "status 503"},
		"not TLS":           {Endpoint{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, "does not answer"},
		"closed":            {Endpoint{URL: "https://" + closed.Addr().String()}, "connection refused"},
		"silent":            {Endpoint{URL: "https://" + silent.Addr().String()}, "within 5s"},
		"no such name":      {Endpoint{URL: "https://mirror.invalid"}, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			c.e.Registry = "docker.io"
			problems := Check(t.Context(), Request{Endpoints: []Endpoint{c.e}})
			switch {
			case c.why == "" && len(problems) == 0:
			case c.why == "" || len(problems) != 1:
				t.Errorf("%v, want %q", problems, c.why)
			case !strings.Contains(problems[0].Why, c.why) || problems[0].URL != c.e.URL || problems[0].Registry != "docker.io" || strings.Contains(problems[0].Why, "word"):
				t.Errorf("%+v, want %q", problems[0], c.why)
			}
		})
	}
}

// TestCheckByProxy goes through the proxy; no message contains the proxy's password.
func TestCheckByProxy(t *testing.T) {
	used := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Host == "mirror.invalid" || r.URL.Host == "mirror.invalid" {
			used++
		}
	}))
	defer proxy.Close()
	e := []Endpoint{{Registry: "docker.io", URL: "http://mirror.invalid", Insecure: true}}
	if problems := Check(t.Context(), Request{Endpoints: e, HTTPProxy: proxy.URL}); len(problems) > 0 || used != 1 {
		t.Errorf("%v, used %d times", problems, used)
	}
	problems := Check(t.Context(), Request{Endpoints: e, HTTPProxy: "http://me:secret-word@127.0.0.1:1"})
	if len(problems) != 1 || strings.Contains(problems[0].Why, "secret-word") {
		t.Errorf("%v", problems)
	}
}
