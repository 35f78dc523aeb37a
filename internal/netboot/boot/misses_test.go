package boot

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMissesAreBounded: requests without an answer and with very long queries write little to the log.
func TestMissesAreBounded(t *testing.T) {
	var out bytes.Buffer
	h := Handler(Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	for range 200 {
		r := httptest.NewRequest("GET", "/ignition?a="+strings.Repeat("%1b", 20_000)+"&mac=52:54:00:00:00:01", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 404 {
			t.Fatal(w.Code)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || out.Len() > 1000 || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "192.0.2.1") {
		t.Errorf("%d lines, %d bytes: %.500s", n, out.Len(), out.String())
	}
}
