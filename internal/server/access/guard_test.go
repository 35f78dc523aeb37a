package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// request sends a request through the guard to a handler.
func request(g *Gate, m server.Mount, method, path, token string, h http.HandlerFunc) (w *httptest.ResponseRecorder, panicked any) {
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path = path
	r.Header.Set("Authorization", "Bearer "+token)
	w = httptest.NewRecorder()
	defer func() { panicked = recover() }()
	g.Guard(m, h).ServeHTTP(w, r)
	return w, nil
}

func outcomes(t *testing.T, st store.Store) string {
	t.Helper()
	var all []string
	for _, e := range testkit.Value(st.Audit(t.Context(), store.AuditQuery{Oldest: true}))(t) {
		all = append(all, e.Action+": "+e.Outcome)
	}
	return strings.Join(all, "\n")
}

var own = server.Mount{Need: server.Read, Scope: server.Own()}

// TestAuditHasWhatFailed: the audit records not-found requests, panics and server errors, clipped and without control characters.
func TestAuditHasWhatFailed(t *testing.T) {
	g, st := gate(t)
	token, _, err := NewToken(t.Context(), st, "ann", server.Admin, "", 0)
	testkit.Must(t, err)
	answer := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	request(g, own, "GET", "/missing", token, answer(404))
	request(g, own, "POST", "/x", token, answer(502))
	_, why := request(g, own, "GET", "/panic", token, func(http.ResponseWriter, *http.Request) { panic("on purpose") })
	_, half := request(g, own, "POST", "/half", token, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		panic("on purpose")
	})
	request(g, own, "GET", "/\x1b]0;x\a\nFAKE LINE\u202e", token, answer(404))
	request(g, own, "GET", "/"+strings.Repeat("y", 60_000), token, answer(404))
	got := outcomes(t, st)
	if why == nil || half == nil {
		t.Error("a panic was swallowed")
	}
	for _, want := range []string{"GET /missing: refused: Not Found", "POST /x: failed: Bad Gateway", "GET /panic: failed: the handler panicked", "POST /half: failed: the handler panicked", "GET /␛]0;x␇␤FAKE LINE<U+202E>: refused"} {
		if !strings.Contains(got, want) {
			t.Errorf("the audit lacks %q:\n%s", want, got)
		}
	}
	if len(got) > 1500 || strings.ContainsAny(got, "\x1b\a\u202e") {
		t.Errorf("the audit has %d bytes: %q", len(got), got)
	}
}

// TestValidTokenIsNeverLockedOut: a valid token works regardless of the number of wrong tokens from the same address.
func TestValidTokenIsNeverLockedOut(t *testing.T) {
	g, st := gate(t)
	token, _, err := NewToken(t.Context(), st, "ann", server.Read, "", 0)
	testkit.Must(t, err)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }
	codes := map[int]int{}
	for range 3 * burstWrong {
		w, _ := request(g, own, "GET", "/", prefix+"0123456789ab_wrong", ok)
		codes[w.Code]++
	}
	if codes[401] < burstWrong || codes[429] == 0 {
		t.Errorf("status codes of wrong tokens: %v", codes)
	}
	if w, _ := request(g, own, "GET", "/", token, ok); w.Code != 200 {
		t.Errorf("the valid token: %d %s", w.Code, w.Body)
	}
	if _, _, err := g.BeginByToken(httptest.NewRequest("POST", "/ui/login", nil), "", token, time.Hour); err != nil {
		t.Errorf("signing in to the pages: %v", err)
	}
	// Sign-ins with the provider have their own counter.
	testkit.Must(t, g.Attempt(httptest.NewRequest("GET", "/ui/login/callback", nil), func() error { return nil }))
}

// TestRefusalsAreSummarized: an unauthenticated address gets one entry a minute, and one summary that counts the other refusals.
func TestRefusalsAreSummarized(t *testing.T) {
	g, st := gate(t)
	now := time.Now()
	g.quiet = peer.NewRepeats[store.AuditEntry](mostSources, func() time.Time { return now })
	r := httptest.NewRequest("GET", "/", nil)
	for i := range 5000 {
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i%3)
		if i%5 == 0 {
			r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1", i) // one network
		}
		g.Note(r, Operator{Name: "nobody"}, "signed in to the pages", "", fail.New(fail.Unauthorized, "wrong"))
	}
	if all := testkit.Value(st.Audit(t.Context(), store.AuditQuery{}))(t); len(all) != 4 {
		t.Errorf("the audit has %d entries", len(all))
	}
	now = now.Add(peer.Window)
	g.Note(r, Operator{Name: "nobody"}, "signed in to the pages", "", fail.New(fail.Unauthorized, "wrong"))
	sum := 0
	for _, e := range testkit.Value(st.Audit(t.Context(), store.AuditQuery{}))(t) {
		sum += max(e.Count, 1)
	}
	if sum != 5001 {
		t.Errorf("the entries stand for %d requests", sum)
	}
	for i := range 50_000 { // the number of separate counters is limited
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		g.quiet.Count(peer.Key(server.Remote(r)), 1, store.AuditEntry{})
	}
	if n := g.quiet.Len(); n > mostSources+1 {
		t.Errorf("%d addresses are counted separately", n)
	}
}

// unwritable is a store that can't write its audit while it is full.
type unwritable struct {
	store.Store
	full bool
}

// Note implements store.Auditing.
func (u *unwritable) Note(ctx context.Context, e store.AuditEntry) error {
	if u.full {
		return errors.New("no space left on device")
	}
	return u.Store.Note(ctx, e)
}

// TestNothingWithoutATrace: while the audit can't be written, operations that need an administrator, hand out secrets or destroy are refused, and so are
// all changes after the first lost entry.
func TestNothingWithoutATrace(t *testing.T) {
	g, st := gate(t)
	u := &unwritable{Store: st}
	g.st = u
	token, _, err := NewToken(t.Context(), st, "ann", server.Admin, "", 0)
	testkit.Must(t, err)
	did := 0
	do := func(w http.ResponseWriter, r *http.Request) { did++ }
	sensitive := func(w http.ResponseWriter, r *http.Request) {
		if err := Sensitive(r.Context()); err != nil {
			refuse(w, err)
			return
		}
		did++
	}
	admin, operate := server.Mount{Need: server.Admin, Scope: server.Own()}, server.Mount{Need: server.Operate, Scope: server.Own()}
	u.full = true
	for name, ask := range map[string]func() *httptest.ResponseRecorder{
		"admin": func() *httptest.ResponseRecorder { w, _ := request(g, admin, "POST", "/shutdown", token, do); return w },
		"sensitive": func() *httptest.ResponseRecorder {
			w, _ := request(g, own, "POST", "/kubeconfig", token, sensitive)
			return w
		},
	} {
		if w := ask(); w.Code != http.StatusServiceUnavailable || did != 0 || !strings.Contains(w.Body.String(), "audit log can't be written") {
			t.Errorf("%s: %d %s, done %d times", name, w.Code, w.Body, did)
		}
	}
	u.full = false
	if w, _ := request(g, operate, "POST", "/jobs", token, do); w.Code != 200 || did != 1 {
		t.Errorf("after the disk has space again: %d %s", w.Code, w.Body)
	}
	u.full = true
	request(g, operate, "POST", "/jobs", token, do) // the first lost entry
	if w, _ := request(g, operate, "POST", "/jobs", token, do); w.Code != http.StatusServiceUnavailable || did != 2 {
		t.Errorf("after one was lost: %d, done %d times", w.Code, did)
	}
	if w, _ := request(g, own, "GET", "/clusters", token, do); w.Code != 200 {
		t.Errorf("looking: %d", w.Code)
	}
	u.full = false
	request(g, admin, "POST", "/shutdown", token, do)
	if got := outcomes(t, st); !strings.Contains(got, "POST /shutdown: begun\nPOST /shutdown: done") {
		t.Errorf("the audit has:\n%s", got)
	}
}

// TestStreamEndsWithItsToken: a stream ends when its token is revoked or expires.
func TestStreamEndsWithItsToken(t *testing.T) {
	g, st := gate(t)
	g.Bound(Bounds{Watch: 10 * time.Millisecond})
	m := server.Mount{Need: server.Read, Scope: server.Own(), Stream: true}
	for name, life := range map[string]time.Duration{"revoked": 0, "expired": 300 * time.Millisecond} {
		token, made, err := NewToken(t.Context(), st, name, server.Read, "", life)
		testkit.Must(t, err)
		request(g, m, "GET", "/events", token, func(_ http.ResponseWriter, r *http.Request) {
			if life == 0 {
				testkit.Must(t, st.RevokeToken(t.Context(), made.ID))
			}
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
				t.Errorf("%s: the stream goes on", name)
			}
		})
	}
}

// TestIdleSessionEnds: an idle session ends, a used one lasts, and the API rejects the browser's cookie.
func TestIdleSessionEnds(t *testing.T) {
	g, st := gate(t)
	token, made, err := NewToken(t.Context(), st, "ann", server.Read, "", time.Hour)
	testkit.Must(t, err)
	r := httptest.NewRequest("GET", "/ui/clusters", nil)
	secret, lasts, err := g.BeginByToken(r, "", token, 12*time.Hour)
	testkit.Must(t, err)
	if lasts > time.Hour || strings.Contains(secret, token) {
		t.Errorf("the session lasts %s", lasts)
	}
	if who := testkit.Value(g.SignIn(r, secret))(t); who.Via != ViaTokenPages || who.ID != made.ID || who.Session == "" {
		t.Errorf("it is %+v", who)
	}
	if w, _ := request(g, own, "GET", "/", secret, func(http.ResponseWriter, *http.Request) {}); w.Code != 401 {
		t.Errorf("the API accepts the session: %d", w.Code)
	}
	if used := testkit.Value(st.Token(t.Context(), made.ID))(t).Used; time.Since(used) > time.Minute {
		t.Errorf("the token was used at %s", used)
	}
	g.Bound(Bounds{Idle: time.Millisecond})
	time.Sleep(5 * time.Millisecond)
	_, err = g.SignIn(r, secret)
	testkit.Fails(t, err, fail.Unauthorized, "idle for")
	g.Bound(Bounds{})
	testkit.Value(g.SignIn(r, secret))(t)
	testkit.Must(t, st.RevokeToken(t.Context(), made.ID))
	_, err = g.SignIn(r, secret)
	testkit.Fails(t, err, fail.Unauthorized, "revoked")
}

// TestFresh: an old sign-in with a provider is refused; a token passes.
func TestFresh(t *testing.T) {
	g, _ := gate(t)
	testkit.Must(t, g.Fresh(Operator{Via: ViaToken}))
	testkit.Must(t, g.Fresh(Operator{Via: ViaIDToken, SignedIn: time.Now().Add(-time.Minute)}))
	testkit.Fails(t, g.Fresh(Operator{Via: ViaIDToken, SignedIn: time.Now().Add(-time.Hour)}), fail.Refused, "naupegos login --fresh")
	testkit.Fails(t, g.Fresh(Operator{Via: ViaIDToken, SignedIn: time.Now().Add(time.Hour)}), fail.Refused, "naupegos login --fresh")
	testkit.Fails(t, g.Fresh(Operator{Via: ViaTokenPages, SignedIn: time.Now().Add(-time.Hour)}), fail.Refused)
	testkit.Fails(t, g.Fresh(Operator{Via: ViaIDToken, SignedIn: Unproven}), fail.Refused, "auth_time")
}

// TestAdmit: a job of another cluster looks like a missing one.
func TestAdmit(t *testing.T) {
	of := server.Found("job", "id", func(_ *http.Request, id string) (string, error) {
		if id == "gone" {
			return "", fail.New(fail.NotFound, "there is no job")
		}
		return "prod", nil
	})
	liz, ada := Operator{Role: server.Admin, Cluster: "demo"}, Operator{Role: server.Read}
	ask := func(id string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetPathValue("id", id)
		r.SetPathValue("name", id)
		return r
	}
	_, gone := liz.Admit(ask("gone"), server.Read, of)
	_, foreign := liz.Admit(ask("j1"), server.Read, of)
	if gone == nil || foreign == nil || strings.ReplaceAll(foreign.Error(), "j1", "gone") != gone.Error() || strings.Contains(foreign.Error(), "prod") {
		t.Errorf("the errors differ: %v, and %v", gone, foreign)
	}
	if cluster, err := ada.Admit(ask("j1"), server.Read, of); err != nil || cluster != "prod" {
		t.Errorf("%q %v", cluster, err)
	}
	_, err := ada.Admit(ask("j1"), server.Operate, of)
	testkit.Fails(t, err, fail.Refused, "role operate")
	_, err = liz.Admit(ask("prod"), server.Read, server.Cluster("name"))
	testkit.Fails(t, err, fail.NotFound, "no such cluster")
	_, err = liz.Admit(ask("x"), server.Read, server.Everything())
	testkit.Fails(t, err, fail.Refused, "demo alone")
	testkit.Value(liz.Admit(ask("x"), server.Admin, server.Own()))(t)
}
