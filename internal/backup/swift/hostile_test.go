package swift

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHostileAnswers: no answer of an object store or of its identity service fills memory, and no list is read without an end.
func TestHostileAnswers(t *testing.T) {
	endless := func(w http.ResponseWriter, begin string) {
		for _, err := io.WriteString(w, begin); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	}
	for name, c := range map[string]struct {
		login, list func(w http.ResponseWriter, n int)
		say         string
	}{
		"an endless login": {login: func(w http.ResponseWriter, _ int) { endless(w, `{"token":{"x":"`) }, say: "the answer is larger than"},
		"an endless list":  {list: func(w http.ResponseWriter, _ int) { endless(w, `[{"name":"`) }, say: "the answer is larger than"},
		"the same page": {list: func(w http.ResponseWriter, _ int) {
			fmt.Fprint(w, `[{"name":"demo/a","last_modified":"2026-11-30T00:00:00"}]`)
		}, say: "repeats its list"},
		"two pages in turn": {list: func(w http.ResponseWriter, n int) {
			fmt.Fprint(w, "[", strings.Repeat(fmt.Sprintf(`{"name":"demo/%d","last_modified":"2026-11-30T00:00:00"},`, n%2), 9999), fmt.Sprintf(`{"name":"demo/%d","last_modified":"2026-11-30T00:00:00"}]`, n%2))
		}, say: "more than 200000 files"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					n++
					c.list(w, n)
				case c.login != nil:
					c.login(w, 0)
				default:
					w.Header().Set("X-Subject-Token", "t")
					fmt.Fprintf(w, `{"token":{"expires_at":"2099-01-01T00:00:00Z","catalog":[{"type":"object-store","endpoints":[{"interface":"public","url":%q}]}]}}`, s.URL)
				}
			}))
			defer s.Close()
			t.Setenv(idName, "id")
			t.Setenv(secretName, "word")
			_, err := New(Spec{AuthURL: s.URL, Container: "c"}).List(t.Context(), "demo")
			testkit.Fails(t, err, fail.Refused, c.say)
			if n > 30 {
				t.Errorf("%d pages were read", n)
			}
		})
	}
}
