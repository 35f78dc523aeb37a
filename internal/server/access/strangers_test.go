package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStrangersInTheAudit: requests without a token leave few and short entries.
func TestStrangersInTheAudit(t *testing.T) {
	g, st := gate(t)
	h := g.Guard(server.Mount{Pattern: "GET /api/v1/x", Need: server.Read, Scope: server.Own()}, http.NotFoundHandler())
	for range 300 {
		g.limits = newLimits()
		r := httptest.NewRequest("GET", "/api/v1/x%1b%5d0;owned%07%0aFAKE%20LINE"+strings.Repeat("a", 60_000), nil)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	log := testkit.Value(st.Audit(t.Context(), store.AuditQuery{}))(t)
	if len(log) != 1 { // a summary follows each minute
		t.Errorf("%d entries", len(log))
	}
	for _, e := range log {
		if len(e.Action) > 210 || strings.ContainsAny(e.Action, "\x1b\x07\n") {
			t.Errorf("%q", e.Action)
		}
	}
}
