package scheme

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBound: an answer that is as large as it may be comes whole; one that is larger, also if it is compressed or has no end, ends in an error.
func TestBound(t *testing.T) {
	const most = 1 << 20
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			_, _ = io.WriteString(w, strings.Repeat("x", most))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("x", 100*most))
			_ = z.Close()
		default:
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}
	}))
	defer s.Close()
	c := &http.Client{Transport: Bound(&http.Transport{}, func(r *http.Request) int64 {
		if r.URL.Query().Has("any") {
			return 0
		}
		return most
	})}
	defer c.CloseIdleConnections()
	for path, bounded := range map[string]bool{"/whole": false, "/bomb": true, "/endless": true, "/bomb?any": false} {
		res := testkit.Value(c.Get(s.URL + path))(t)
		body, err := io.ReadAll(res.Body)
		testkit.Must(t, res.Body.Close())
		if !bounded {
			testkit.Must(t, err)
			continue
		}
		if testkit.Fails(t, err, fail.Refused, "larger than 1024 KiB"); len(body) != most {
			t.Errorf("%s: %d bytes", path, len(body))
		}
	}
}
