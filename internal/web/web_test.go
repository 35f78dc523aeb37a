package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/testkit"
)

// evil is a text that a machine reports for an attacker.
const evil = `<script>alert(1)</script>`

// site is a server of pages over a real store, registry and gate, with TLS.
type site struct {
	t             *testing.T
	pages         *Pages
	url           string
	store         store.Store
	board         *work.Board
	client        *http.Client
	admin, reader string // tokens
	readerID      string
	switched      switched
	local         string // a token for the cluster harbour only
	gate          *access.Gate
	sessions      map[string]string // by token, of tokens that have signed in
	idp           *idp              // provider that operators sign in with; nil: none
	server        *httptest.Server
	down          atomic.Bool // a proxy on the way answers that the server does not
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteWith(t, nil)
}

// newSiteWith returns a site with an issuer, which by creates for the site's address.
func newSiteWith(t *testing.T, by func(url string) *issuer.Issuer) *site {
	t.Helper()
	at := store.Location{Dir: t.TempDir()}
	reopen := func(ctx context.Context) (store.Store, error) { return store.Open(ctx, at) }
	st := testkit.Value(reopen(t.Context()))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	s := &site{t: t, store: st, sessions: map[string]string{}}
	machines := registry.Options{Power: &s.switched, Secrets: st.ServerSecrets()}
	token := func(name string, role server.Role, cluster string) (secret, id string) {
		secret, made, err := access.NewToken(t.Context(), st, name, role, cluster, 0)
		testkit.Must(t, err)
		return secret, made.ID
	}
	s.admin, _ = token("ada", server.Admin, "")
	s.reader, s.readerID = token("rob", server.Read, "")
	s.local, _ = token("liz", server.Operate, "harbour")
	agent := func() (string, error) { return "", fail.New(fail.NotFound, "there is no agent in this test") }
	options := func(operate.Asked, work.Need) operate.Options { return operate.Options{Agent: agent, ReadOnly: true} }
	s.board = work.New(work.Config{Store: st, Open: reopen, Options: options, Log: slog.New(slog.DiscardHandler), Reviewed: follow.NewFollows(st.ServerSecrets()).Check})
	mux := http.NewServeMux()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			http.Error(w, "bad gateway", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.gate = access.NewGate(st, slog.New(slog.DiscardHandler))
	config := Config{
		Store: st, Machines: registry.New(st.Metal(), machines), Gate: s.gate,
		Look: func(string) operate.Options { return operate.Options{Agent: agent, ReadOnly: true} }, Open: reopen, Options: options, Board: s.board,
	}
	if by != nil {
		believed := by(srv.URL)
		s.gate.Believe(believed)
		config.Provider = believed
	}
	pages := testkit.Value(New(config))(t)
	pages.watched = 20 * time.Millisecond
	for _, r := range pages.Routes() {
		mux.Handle(r.Pattern, r.Handler)
	}
	client := srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.pages, s.url, s.client, s.server = pages, srv.URL, client, srv
	return s
}

// saw records a status as a server's look at a cluster.
func (s *site) saw(id string, status *report.Status) {
	s.t.Helper()
	h := s.store.Health()
	if !testkit.Value(h.Take(s.t.Context(), id, "test", time.Minute))(s.t) {
		s.t.Fatal("another server looks")
	}
	state, cause, remedy := watch.Judge(status.Name, status, nil)
	r := health.Record{ClusterID: id, State: state, Cause: cause, Remedy: remedy, Summary: testkit.Value(json.Marshal(watch.Sum(status)))(s.t), Report: testkit.Value(json.Marshal(status))(s.t)}
	testkit.Must(s.t, h.Put(s.t.Context(), "test", r, 0))
}

// audit returns the audit, one line an entry.
func (s *site) audit() string {
	s.t.Helper()
	var all []string
	for _, e := range testkit.Value(s.store.Audit(s.t.Context(), store.AuditQuery{}))(s.t) {
		all = append(all, strings.Join([]string{e.Who, e.Action, e.Cluster, e.Outcome}, " "))
	}
	return strings.Join(all, "\n")
}

// answer is a page's answer.
type answer struct {
	code int
	http.Header
	body string
}

// session returns the session's secret of a token, after signing in with it if needed. It returns other texts unchanged.
func (s *site) session(token string) string {
	s.t.Helper()
	if raw, is := strings.CutPrefix(token, "raw "); is {
		return raw
	}
	if token != s.admin && token != s.reader && token != s.local {
		return token
	}
	if s.sessions[token] == "" {
		secret, _, err := s.gate.BeginByToken(httptest.NewRequest("POST", "/ui/login", nil), "", token, time.Hour)
		testkit.Must(s.t, err)
		s.sessions[token] = secret
	}
	return s.sessions[token]
}

// ask sends a request as the browser of a token's owner; header holds further pairs.
func (s *site) ask(method, path, token string, form url.Values, header ...string) answer {
	s.t.Helper()
	req := testkit.Value(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(form.Encode())))(s.t)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		req.AddCookie(&http.Cookie{Name: cookieName, Value: s.session(token)})
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := testkit.Value(s.client.Do(req))(s.t)
	defer resp.Body.Close()
	var b strings.Builder
	_, err := bufio.NewReader(resp.Body).WriteTo(&b)
	testkit.Must(s.t, err)
	return answer{resp.StatusCode, resp.Header, b.String()}
}

// discover reports a machine's facts; each text that the machine chooses is evil.
func (s *site) discover(n int) string {
	s.t.Helper()
	uuid, mac := fmt.Sprintf("a5e6b0c2-0000-4000-8000-%012d", n), fmt.Sprintf("52:54:00:00:%02x:%02x", n/256, n%256)
	d := facts.Discovery{
		Boot:       facts.BootInfo{UUID: uuid, MAC: mac, RandomID: "c0ffee00-0000-4000-8000-000000000001"},
		Interfaces: []facts.Interface{{Name: "eth0", MAC: mac, IPv4: "10.0.0.9", CIDRv4: "10.0.0.9/24", Netmask: 24, Gateway: "10.0.0.1", FQDN: []string{evil}, Link: true}},
		Disks:      []facts.Disk{{Path: "/dev/vda", SizeBytes: 20e9, Serial: evil, Model: evil, Holds: []string{evil}}},
		LLDP:       facts.LLDP{IsFile: true, Data: facts.LLDPData{Interfaces: []facts.Neighbour{{Name: "eth0", Port: facts.Port{ID: evil}, Chassis: facts.Chassis{ID: evil, Name: evil}}}}},
		Journal:    []string{evil}, System: &facts.System{Manufacturer: evil, Product: evil, Serial: evil, CPU: evil},
	}
	_, err := s.pages.c.Machines.Discover(s.t.Context(), testkit.Value(json.Marshal(d))(s.t), "")
	testkit.Must(s.t, err)
	return uuid
}

func TestEveryPageNeedsATokenAndSaysNothingOfAnybodyElse(t *testing.T) {
	s := newSite(t)
	uuid := s.discover(1)
	for _, path := range []string{"/ui/machines", "/ui/machines/" + uuid, "/ui/approvals", "/ui/clusters", "/ui/waves", "/ui/backups", "/ui/audit"} {
		for _, token := range []string{"", "naupegos_abc_def"} {
			if a := s.ask("GET", path, token, nil); a.code != http.StatusSeeOther || !strings.HasPrefix(a.Get("Location"), "/ui/login?to=") || strings.Contains(a.body, "52:54") {
				t.Errorf("%s with the token %q: %d %s", path, token, a.code, a.Get("Location"))
			}
		}
		a := s.ask("GET", path, s.admin, nil)
		if a.code != http.StatusOK || !strings.Contains(a.body, "The same on the command line") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
		for _, h := range [][2]string{{"X-Frame-Options", "DENY"}, {"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}} {
			if a.Get(h[0]) != h[1] {
				t.Errorf("%s has the header %s: %q", path, h[0], a.Get(h[0]))
			}
		}
		if p := a.Get("Content-Security-Policy"); !strings.Contains(p, "frame-ancestors 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s may be framed, or runs scripts that are in it: %s", path, p)
		}
		if i := strings.Index(a.body, "<script>"); i >= 0 || strings.Contains(a.body, " style=") || strings.Contains(a.body, " onclick=") {
			t.Errorf("%s has scripts or styles of its own, which the policy forbids, or another site's", path)
		}
	}
	if a := s.ask("GET", "/ui/machines/"+uuid, s.admin, nil); !strings.Contains(a.body, "&lt;script&gt;") {
		t.Error("the machine's page does not show what its switch calls itself")
	}
	if a := s.ask("GET", "/ui/audit", s.reader, nil); a.code != http.StatusForbidden {
		t.Errorf("a reader may look at the audit: %d", a.code)
	}
	if a := s.ask("GET", "/ui/machines/00000000-0000-4000-8000-000000000000", s.admin, nil); a.code != http.StatusNotFound {
		t.Errorf("a machine that is not there: %d", a.code)
	}
}

func TestSignIn(t *testing.T) {
	s := newSite(t)
	in := func(token, to string) answer {
		return s.ask("POST", "/ui/login", "", url.Values{"token": {token}, "to": {to}})
	}
	if a := in("wrong", "/ui/machines"); a.code != http.StatusUnauthorized || a.Get("Set-Cookie") != "" || !strings.Contains(a.body, "a valid token is required") {
		t.Errorf("a wrong token: %d %v", a.code, a.Header)
	}
	a := in(s.admin, "/ui/machines?state=failed")
	if a.code != http.StatusSeeOther || a.Get("Location") != "/ui/machines?state=failed" {
		t.Errorf("after signing in: %d %s", a.code, a.Get("Location"))
	}
	for _, want := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(a.Get("Set-Cookie"), want) {
			t.Errorf("the cookie lacks %s: %s", want, a.Get("Set-Cookie"))
		}
	}
	for _, to := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "/ui/../../x", "javascript:alert(1)", "/elsewhere", "https:/ui/x"} {
		if at := in(s.admin, to).Get("Location"); !strings.HasPrefix(at, "/ui/") || strings.Contains(at, "evil") {
			t.Errorf("%q leads to %q", to, at)
		}
	}
	// A sign-in begins the token's own session, whatever cookie the browser had; that session ends.
	a = s.ask("POST", "/ui/login", s.reader, url.Values{"token": {s.admin}})
	if cookie := a.Get("Set-Cookie"); !strings.Contains(cookie, "=session_") || strings.Contains(cookie, s.sessions[s.reader]) || strings.Contains(cookie, s.admin) {
		t.Errorf("the cookie from before stays, or the browser has a token: %s", cookie)
	}
	if a := s.ask("GET", "/ui/clusters", s.sessions[s.reader], nil); a.code != http.StatusSeeOther {
		t.Errorf("the session from before goes on: %d", a.code)
	}
	if a := s.ask("GET", "/ui/clusters", "raw "+s.reader, nil); a.code != http.StatusSeeOther {
		t.Errorf("a token is taken as a session: %d", a.code)
	}
	if a := s.ask("POST", "/ui/logout", s.admin, url.Values{}); !strings.Contains(a.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out leaves the cookie: %v", a.Header)
	}
	testkit.Must(t, s.store.RevokeToken(t.Context(), s.readerID))
	if a := s.ask("GET", "/ui/machines", s.reader, nil); a.code != http.StatusSeeOther {
		t.Errorf("a token that was revoked shows pages: %d", a.code)
	}
}

func TestActions(t *testing.T) {
	s := newSite(t)
	uuid := s.discover(1)
	approve := "/ui/machines/" + uuid + "/approve"
	approval := func() string { return testkit.Value(s.pages.c.Machines.Machine(t.Context(), uuid))(t).Approval }
	for name, header := range map[string][]string{
		"another site's form":   {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"a sister host's form":  {"Sec-Fetch-Site", "same-site", "Origin", "https://sister.example"},
		"an old browser's form": {"Origin", "https://evil.example"},
	} {
		if a := s.ask("POST", approve, s.admin, url.Values{}, header...); a.code != http.StatusForbidden || approval() != "pending" {
			t.Errorf("%s: %d, the machine is %s", name, a.code, approval())
		}
	}
	if a := s.ask("POST", approve, s.reader, url.Values{}); a.code != http.StatusForbidden || approval() != "pending" {
		t.Errorf("a reader approves: %d, the machine is %s", a.code, approval())
	}
	if a := s.ask("GET", approve, s.admin, nil); a.code != http.StatusMethodNotAllowed && a.code != http.StatusNotFound || approval() != "pending" {
		t.Errorf("a link approves: %d", a.code)
	}
	if a := s.ask("POST", approve, s.admin, url.Values{"key": {"another"}}); a.code != http.StatusConflict || approval() != "pending" {
		t.Errorf("another key is approved: %d", a.code)
	}
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	a := s.ask("POST", approve, s.admin, url.Values{"to": {"/ui/approvals"}}, own...)
	if a.code != http.StatusSeeOther || a.Get("Location") != "/ui/approvals?done=approved" || approval() != "approved" {
		t.Errorf("approve: %d %s, the machine is %s", a.code, a.Get("Location"), approval())
	}
	if a := s.ask("GET", a.Get("Location"), s.admin, nil); !strings.Contains(a.body, "The machine was approved.") {
		t.Error("the page does not report the action")
	}
	s.ask("POST", "/ui/machines/"+uuid+"/label", s.admin, url.Values{"labels": {"rack=r12 old-"}}, own...)
	s.ask("POST", "/ui/machines/"+uuid+"/name", s.admin, url.Values{"name": {"bay-7"}}, own...)
	s.ask("POST", "/ui/machines/"+uuid+"/maintenance", s.admin, url.Values{"why": {"a fan is loud"}}, own...)
	if m := testkit.Value(s.pages.c.Machines.Machine(t.Context(), "bay-7"))(t); m.Labels["rack"] != "r12" || m.Record.Maintenance != "a fan is loud" {
		t.Errorf("the machine is %+v", m)
	}
	if a := s.ask("POST", "/ui/machines/"+uuid+"/label", s.admin, url.Values{"labels": {"what"}}, own...); a.code != http.StatusBadRequest {
		t.Errorf("what is no label: %d", a.code)
	}
	if a := s.ask("POST", "/ui/machines/"+uuid+"/forget", s.admin, url.Values{}, own...); a.code != http.StatusBadRequest {
		t.Errorf("a machine is forgotten at once: %d", a.code)
	}
	if a := s.ask("POST", "/ui/machines/"+uuid+"/forget", s.admin, url.Values{"sure": {"yes"}}, own...); a.code != http.StatusSeeOther {
		t.Errorf("forget: %d %s", a.code, a.body)
	}
	all := s.audit()
	for _, want := range []string{"approved a machine " + uuid + "  done", "rob (" + s.readerID + ") approved a machine  refused", "forgot a machine " + uuid + "  done"} {
		if !strings.Contains(all, want) {
			t.Errorf("the audit lacks %q:\n%s", want, all)
		}
	}
}

func TestMachinesAreFilteredAndSorted(t *testing.T) {
	s := newSite(t)
	for n := range 250 {
		s.discover(n)
	}
	_, err := s.pages.c.Machines.Rename(t.Context(), "a5e6b0c2-0000-4000-8000-000000000007", "seven")
	testkit.Must(t, err)
	rows := func(query string) (int, answer) {
		a := s.ask("GET", "/ui/machines"+query, s.admin, nil)
		return strings.Count(a.body, `<tr tabindex="0">`), a
	}
	if n, a := rows(""); n != inPage || !strings.Contains(a.body, "1 to 100 of 250") || strings.Contains(a.body, "← before") {
		t.Errorf("the first page has %d rows", n)
	}
	if n, a := rows("?page=3"); n != 50 || !strings.Contains(a.body, "← before") || strings.Contains(a.body, "after →") {
		t.Errorf("the last page has %d rows", n)
	}
	if n, a := rows("?text=seven"); n != 1 || !strings.Contains(a.body, ">seven</a>") || !strings.Contains(a.body, "naupegos machine list --match seven") {
		t.Errorf("one is asked for, %d come", n)
	}
	if n, _ := rows("?approval=approved"); n != 0 {
		t.Errorf("none is approved, %d come", n)
	}
	if n, a := rows("?state=discovered&order=seen"); n != inPage || !strings.Contains(a.body, `aria-sort="descending"`) || !strings.Contains(a.body, "page=2") {
		t.Errorf("by last seen: %d", n)
	}
	if n, _ := rows("?page=-1&order=%27%3B--"); n != inPage {
		t.Errorf("what is no page and no order: %d", n)
	}
}

// ran executes a plan on a cluster; its step fails.
func (s *site) ran(id string) error {
	p := &plan.Plan{Verb: "apply", Cluster: "harbour", Steps: []*plan.Step{{
		ID: "machine/cp-1", Action: plan.Create, Title: "make machine cp-1 " + evil, Subject: "cp-1", Reason: "it is wanted",
		Run: func(context.Context, plan.Progress) error { return fail.New(fail.Refused, "no room %s", evil) },
	}}}
	if _, err := plan.Execute(s.t.Context(), p, plan.Options{Journal: s.store.Journal(id)}); fail.KindOf(err) != fail.Refused {
		return fmt.Errorf("the step did not fail as it should: %w", err)
	}
	return nil
}

func TestClustersAndRuns(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte("kind: Cluster # " + evil)}))(t)
	testkit.Must(t, s.ran(c.ID))
	for path, want := range map[string]string{"/ui/clusters": "harbour", "/ui/clusters/harbour/document": "kind: Cluster # &lt;script&gt;", "/ui/backups": "No run has created or proven a backup"} {
		if a := s.ask("GET", path, s.reader, nil); a.code != http.StatusOK || !strings.Contains(a.body, want) || strings.Contains(a.body, evil) {
			t.Errorf("%s: %d, wanted %q: %s", path, a.code, want, a.body)
		}
	}
	run := testkit.Value(s.store.Runs(t.Context(), "harbour", 1))(t)[0]
	a := s.ask("GET", "/ui/runs/"+run.ID, s.reader, nil)
	if a.code != http.StatusOK || !strings.Contains(a.body, "<svg") || !strings.Contains(a.body, "no room &lt;script&gt;") || strings.Contains(a.body, evil) {
		t.Errorf("the run: %d %s", a.code, a.body)
	}
}

// TestUnasked: a cluster's page lists its unattended tasks, with their outcome.
func TestUnasked(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte("kind: Cluster")}))(t)
	if a := s.ask("GET", "/ui/clusters/harbour", s.reader, nil); a.code != http.StatusOK || strings.Contains(a.body, "Unattended tasks") {
		t.Errorf("nothing is done: %d %s", a.code, a.body)
	}
	d := testkit.Value(s.store.TakeDuty(t.Context(), "harbour", "drift", time.Hour))(t)
	if a := s.ask("GET", "/ui/clusters/harbour", s.reader, nil); !strings.Contains(a.body, "in progress, by ") {
		t.Errorf("it is under way: %d %s", a.code, a.body)
	}
	d.Outcome, d.Failures, d.Message = store.DutyFailed, 7, "no answer "+evil
	testkit.Must(t, s.store.EndDuty(t.Context(), d, time.Hour))
	a := s.ask("GET", "/ui/clusters/harbour", s.reader, nil)
	for _, want := range []string{`<span class="pill bad">failed</span>`, `class="num">7<`, "no answer &lt;script&gt;"} {
		if !strings.Contains(a.body, want) || strings.Contains(a.body, evil) {
			t.Errorf("wanted %q: %s", want, a.body)
		}
	}
}

// TestStrangersAreNoted: forms of other sites, and requests with invalid sessions, are in the audit.
func TestStrangersAreNoted(t *testing.T) {
	for name, ask := range map[string]struct {
		method, path, token, cookie string
		header                      []string
		want                        string
	}{
		"another site":            {"POST", "/ui/clusters/harbour/kubeconfig", "admin", "", []string{"Sec-Fetch-Site", "cross-site"}, "ada"},
		"another site, no cookie": {"POST", "/ui/logout", "", "", []string{"Sec-Fetch-Site", "cross-site"}, "nobody"},
		"no cookie":               {"POST", "/ui/clusters/harbour/kubeconfig", "", "", nil, "nobody"},
		"a form, no cookie":       {"POST", "/ui/clusters/harbour/apply", "", "", nil, "nobody"},
		"a guessed cookie":        {"GET", "/ui/clusters", "", "session_0011223344556677_x", nil, "nobody"},
		"a guess for a stream":    {"GET", "/ui/live?of=/ui/clusters", "", "session_0011223344556677_x", nil, "nobody"},
	} {
		s := newSite(t)
		req := testkit.Value(http.NewRequestWithContext(t.Context(), ask.method, s.url+ask.path, nil))(t)
		if ask.token != "" {
			ask.cookie = s.session(s.admin)
		}
		if ask.cookie != "" {
			req.AddCookie(&http.Cookie{Name: cookieName, Value: ask.cookie})
		}
		if ask.header != nil {
			req.Header.Set(ask.header[0], ask.header[1])
		}
		resp := testkit.Value(s.client.Do(req))(t)
		testkit.Must(t, resp.Body.Close())
		last := testkit.Value(s.store.Audit(t.Context(), store.AuditQuery{Limit: 1}))(t)
		if len(last) != 1 || !strings.HasPrefix(last[0].Outcome, "refused: ") || !strings.HasPrefix(last[0].Who, ask.want) || !strings.Contains(last[0].Action, strings.Split(ask.path, "?")[0]) {
			t.Errorf("%s: the audit has %+v", name, last)
		}
	}
}
