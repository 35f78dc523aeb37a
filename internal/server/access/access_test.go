package access

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// gate returns a gate on a new store.
func gate(t *testing.T) (*Gate, store.Store) {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	return NewGate(st, slog.New(slog.DiscardHandler)), st
}

// ask sends a request to a guarded handler that returns the operator.
func ask(g *Gate, need server.Role, method, token string) *httptest.ResponseRecorder {
	return askAt(g, need, method, token, func(w http.ResponseWriter, r *http.Request) {
		About(r.Context(), "demo")
		_, _ = io.WriteString(w, From(r.Context()).Name)
	})
}

func askAt(g *Gate, need server.Role, method, token string, handler http.HandlerFunc) *httptest.ResponseRecorder {
	h := g.Guard(server.Mount{Need: need, Scope: server.Own()}, handler)
	r := httptest.NewRequest(method, "/api/v1/jobs", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTokens(t *testing.T) {
	g, st := gate(t)
	ctx := t.Context()
	good, ann, err := NewToken(ctx, st, "ann", server.Operate, "", 0)
	testkit.Must(t, err)
	ended, late, err := NewToken(ctx, st, "late", server.Admin, "", time.Nanosecond)
	testkit.Must(t, err)
	revoked, gone, err := NewToken(ctx, st, "gone", server.Admin, "", 0)
	testkit.Must(t, err)
	testkit.Must(t, st.RevokeToken(ctx, gone.ID))
	if late.Expires.IsZero() || strings.Contains(ann.Hash, good) {
		t.Error("the tokens are wrong")
	}
	half := good[strings.LastIndex(good, "_")+1:]
	for name, c := range map[string]struct {
		token string
		need  server.Role
		want  int
	}{
		"good": {good, server.Operate, 200}, "more than needed": {good, server.Read, 200}, "role too small": {good, server.Admin, 403},
		"missing": {"", server.Read, 401}, "expired": {ended, server.Read, 401}, "revoked": {revoked, server.Read, 401},
		"foreign": {prefix + "0123456789ab_" + half, server.Read, 401}, "another's half": {prefix + ann.ID + "_" + strings.ToUpper(half), server.Read, 401},
		"no half": {prefix + ann.ID, server.Read, 401}, "another's prefix": {"ghp_" + half, server.Read, 401},
		"SQL": {prefix + "' OR 1=1 --_x", server.Read, 401}, "too long": {prefix + ann.ID + "_" + strings.Repeat("x", 1000), server.Read, 401},
	} {
		g.limits = newLimits()
		w := ask(g, c.need, http.MethodPost, c.token)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if c.token != "" && strings.Contains(w.Body.String(), c.token) {
			t.Errorf("%s: the answer contains the token", name)
		}
		if c.want == 200 && w.Body.String() != ann.Name+" ("+ann.ID+")" {
			t.Errorf("%s: it is %s", name, w.Body)
		}
	}
	log := testkit.Value(st.Audit(ctx, store.AuditQuery{Cluster: "demo", Outcome: "done"}))(t)
	if len(log) != 2 || log[0].Via != ViaToken || log[0].Session != ann.ID || log[0].Who != "ann ("+ann.ID+")" || log[0].From != "192.0.2.1" || log[0].Action != "POST /api/v1/jobs" {
		t.Errorf("the audit has %+v", log)
	}
	// The first refusal of an address gets an entry; the others are counted.
	g.summarize(ctx, g.quiet.End())
	counted := 0
	for _, e := range testkit.Value(st.Audit(ctx, store.AuditQuery{Outcome: "refused: Unauthorized"}))(t) {
		counted += max(e.Count, 1)
	}
	if counted != 9 {
		t.Errorf("the audit has %d refusals", counted)
	}
}

// TestReadingIsNotAudited: reads are not in the audit, but refused reads are.
func TestReadingIsNotAudited(t *testing.T) {
	g, st := gate(t)
	good, _, err := NewToken(t.Context(), st, "ann", server.Read, "", 0)
	testkit.Must(t, err)
	ask(g, server.Read, http.MethodGet, good)
	ask(g, server.Admin, http.MethodGet, good)
	// The same applies to POST requests that only read.
	for _, code := range []int{http.StatusOK, http.StatusConflict} {
		askAt(g, server.Read, http.MethodPost, good, func(w http.ResponseWriter, r *http.Request) {
			Looks(r.Context())
			w.WriteHeader(code)
		})
	}
	log := testkit.Value(st.Audit(t.Context(), store.AuditQuery{}))(t)
	if len(log) != 2 || log[0].Outcome != "refused: Conflict" || log[1].Outcome != "refused: Forbidden" {
		t.Errorf("the audit has %+v", log)
	}
}

func TestTooManyWrongTokens(t *testing.T) {
	g, st := gate(t)
	codes := map[int]int{}
	for range 2 * burstWrong {
		codes[ask(g, server.Read, http.MethodGet, prefix+"0123456789ab_guess").Code]++
	}
	if codes[401] < burstWrong || codes[429] < burstWrong/2 {
		t.Errorf("answered were %v", codes)
	}
	good, _, err := NewToken(t.Context(), st, "ann", server.Read, "", 0)
	testkit.Must(t, err)
	g.limits = newLimits()
	ok := 0
	for range burstToken + 100 {
		if ask(g, server.Read, http.MethodGet, good).Code == 200 {
			ok++
		}
	}
	if ok < burstToken || ok == burstToken+100 {
		t.Errorf("%d requests got through at once", ok)
	}
}

// TestOneCluster: a token for one cluster sees no other cluster, and nothing that concerns all of them.
func TestOneCluster(t *testing.T) {
	o := Operator{Name: "ann", Role: server.Operate, Cluster: "demo"}
	testkit.Must(t, o.May(server.Operate, "demo"))
	testkit.Fails(t, o.May(server.Read, "other"), fail.NotFound, "other")
	testkit.Fails(t, o.May(server.Read, ""), fail.Refused, "demo alone")
	testkit.Fails(t, o.May(server.Admin, "demo"), fail.Refused, "role admin")
	testkit.Fails(t, From(t.Context()).May(server.Read, "demo"), fail.Refused, "role read")
	_, st := gate(t)
	_, _, err := NewToken(t.Context(), st, "ann", "root", "", 0)
	testkit.Fails(t, err, fail.Invalid, "root", "read, operate, admin")
	_, _, err = NewToken(t.Context(), st, " ", server.Read, "", 0)
	testkit.Fails(t, err, fail.Invalid, "name")
}
