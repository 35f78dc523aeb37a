package server

import (
	"net/http/httptest"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestForwarded: only configured proxies set the remote address, and only to the last hop that is not a proxy.
func TestForwarded(t *testing.T) {
	s := &Server{c: Config{Proxies: testkit.Value(ParseProxies([]string{"10.0.0.0/24", "2001:db8::1"}))(t)}}
	for name, c := range map[string]struct {
		from   string
		header []string
		want   string
	}{
		"a client":                 {"192.0.2.7:99", []string{"198.51.100.1"}, "192.0.2.7"},
		"a proxy without a header": {"10.0.0.5:99", nil, "10.0.0.5"},
		"a proxy":                  {"10.0.0.5:99", []string{"198.51.100.1"}, "198.51.100.1"},
		"two proxies":              {"10.0.0.5:99", []string{"198.51.100.1, 10.0.0.6"}, "198.51.100.1"},
		"a forged first hop":       {"10.0.0.5:99", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"two headers":              {"10.0.0.5:99", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		"no address":               {"10.0.0.5:99", []string{"198.51.100.1, x"}, "10.0.0.5"},
		"IPv6":                     {"[2001:db8::1]:99", []string{"2001:db8:1::7"}, "2001:db8:1::7"},
		"IPv4 in IPv6":             {"[::ffff:10.0.0.5]:99", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.from, c.header
		if s.forwarded(r); Remote(r) != c.want {
			t.Errorf("%s: the request is from %s, want %s", name, Remote(r), c.want)
		}
	}
	for _, text := range []string{"", "x", "0.0.0.0/0", "::/0", "10.0.0.0/33"} {
		_, err := ParseProxies([]string{text})
		testkit.Fails(t, err, fail.Invalid, "--trusted-proxy")
	}
}
