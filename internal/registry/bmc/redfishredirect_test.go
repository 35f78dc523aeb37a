package bmc

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRedfishRedirectKeepsMethod switches power through controllers that redirect every path to the one with, or without, the trailing slash.
func TestRedfishRedirectKeepsMethod(t *testing.T) {
	for _, code := range []int{301, 302, 307, 308} {
		for _, slash := range []bool{true, false} {
			t.Run(fmt.Sprint(code, slash), func(t *testing.T) {
				t.Parallel()
				f, a := serve(t, odd{noBasic: true})
				f.moved = func(p string) (int, string) {
					if strings.HasSuffix(p, "/") == slash || p == "/redfish/v1/" {
						return 0, ""
					}
					if slash {
						return code, p + "/"
					}
					return code, "https://" + a.Address + strings.TrimSuffix(p, "/")
				}
				on, err := Controllers{}.Power(t.Context(), a, "on", FromNetwork)
				if err != nil || !on || f.told() != "On from Pxe by UEFI" {
					t.Errorf("%v, %v; the machine was told %q; asked: %s", on, err, f.told(), strings.Join(f.seen, ", "))
				}
				if f.open != 0 {
					t.Errorf("%d sessions are open", f.open)
				}
			})
		}
	}
}

// TestRedfishSeeOther: the client reads the result of a request that a controller carried out and shows at another path.
func TestRedfishSeeOther(t *testing.T) {
	f, a := serve(t, odd{resetAs: func(w http.ResponseWriter) {
		w.Header().Set("Location", "/redfish/v1/Systems/1")
		w.WriteHeader(http.StatusSeeOther)
	}})
	on, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
	if err != nil || !on || f.told() != "On" {
		t.Errorf("%v, %v; the machine was told %q", on, err, f.told())
	}
}

// TestRedfishRedirectEnds: the client refuses a redirect to another address before it sends anything there, a loop ends, and a redirect without an
// address is an error.
func TestRedfishRedirectEnds(t *testing.T) {
	for name, c := range map[string]struct{ to, says string }{
		"another host": {"https://192.0.2.1/redfish/v1/Systems", "not its own"},
		"another port": {"https://127.0.0.1:1/redfish/v1/Systems", "not its own"},
		"without TLS":  {"http://%s/redfish/v1/Systems", "not its own"},
		"with a user":  {"https://x@%s/redfish/v1/Systems", "not its own"},
		"a circle":     {"/redfish/v1/Systems", "redirects more than 5 times"},
		"nowhere":      {"", "HTTP 301"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, odd{})
			f.moved = func(p string) (int, string) {
				return map[bool]int{true: 301}[p == "/redfish/v1/Systems"], strings.Replace(c.to, "%s", a.Address, 1)
			}
			_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			testkit.Fails(t, err, fail.Refused, c.says)
			if n := len(slices.DeleteFunc(f.seen, func(s string) bool { return s != "GET /redfish/v1/Systems" })); n == 0 || n > 6 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}
