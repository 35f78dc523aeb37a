package kube

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAnswersAreBounded: an answer without an end ends in an error, also one that is compressed.
func TestAnswersAreBounded(t *testing.T) {
	const most = 4 << 20
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var to io.Writer = w
		if r.URL.Path != "/plain" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		if r.URL.Path == "/small" {
			_, _ = fmt.Fprint(to, "small")
			return
		}
		part := bytes.Repeat([]byte(" "), 1<<20)
		for range most>>20 + 1 {
			if _, err := to.Write(part); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	c := &http.Client{Transport: bounded{http.DefaultTransport, most}}
	for path, fails := range map[string]bool{"/plain": true, "/compressed": true, "/small": false} {
		resp := testkit.Value(c.Get(srv.URL + path))(t)
		n, err := io.Copy(io.Discard, resp.Body)
		testkit.Must(t, resp.Body.Close())
		if (fail.KindOf(err) == fail.Refused) != fails || n > most {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
}
