package serving

import (
	"github.com/spf13/cobra"

	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/authority"
	oidc "github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Facts about a foreign cluster and its machine, which operators of another cluster must not see in any answer, unless their request contains them.
const (
	foreignCluster = "harbourmaster"
	foreignWord    = "wordoftheirs"
	foreignUUID    = "a5e6b0c2-0000-4000-8000-00000000f00d"
	foreignMAC     = "52:54:00:f0:0d:01"
)

// world is a whole server with a foreign cluster and machine.
type world struct {
	t       *testing.T
	parts   []server.Part
	store   store.Store
	gate    *access.Gate
	url     string
	client  *http.Client
	job     string
	run     string
	cookies map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	at, log := store.Location{Dir: t.TempDir()}, slog.New(slog.DiscardHandler)
	reopen := func(ctx context.Context) (store.Store, error) { return store.Open(ctx, at) }
	st := testkit.Value(reopen(t.Context()))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	agent := func() (string, error) { return "", fail.New(fail.NotFound, "there is no agent in this test") }
	h := Host{Out: io.Discard, Err: io.Discard, OpenStore: reopen, Agent: agent, Version: "test",
		Options: func(operate.Asked, work.Need) operate.Options {
			return operate.Options{Agent: agent, ReadOnly: true, Say: io.Discard}
		},
		Look: func(string) operate.Options { return operate.Options{Agent: agent, ReadOnly: true, Say: io.Discard} }}
	f := flags{http: "127.0.0.1:0", https: "127.0.0.1:0"}
	f.machine.bind(&cobra.Command{}) // the default limits
	gate := access.NewGate(st, log)
	boot := server.Part{}
	told := h.metrics(st, log)
	machines, reg, known, err := h.machines(t.Context(), st, &f, netbooting.Site{}, &boot, told, func() {}, log)
	testkit.Must(t, err)
	var nobody *oidc.Issuer
	parts, err := h.parts(t.Context(), st, gate, nobody, reg, told, log, &f)
	testkit.Must(t, err)
	parts = append(parts, machines, told.Part(), nobody.Part())
	for i := range parts {
		parts[i].Run = nil // the test needs only the requests
	}
	ca := testkit.Value(authority.Open(t.Context(), st.ServerSecrets(), "server"))(t)
	s := testkit.Value(server.Listen(t.Context(), server.Config{ListenHTTP: "127.0.0.1:0", ListenHTTPS: "127.0.0.1:0", Serving: testkit.Value(ca.Serve(nil, log))(t), Clients: known,
		Parts: parts, Guard: gate.Guard, Log: log, Drain: time.Millisecond}))(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	t.Cleanup(tr.CloseIdleConnections)
	w := &world{t: t, parts: parts, store: st, gate: gate, url: "https://" + s.Addresses().HTTPS, cookies: map[string]string{},
		client: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	w.furnish()
	_, err = reg.Discover(t.Context(), testkit.Value(json.Marshal(facts.Discovery{
		Boot:       facts.BootInfo{UUID: foreignUUID, MAC: foreignMAC, RandomID: "c0ffee00-0000-4000-8000-000000000001"},
		Interfaces: []facts.Interface{{Name: "eth0", MAC: foreignMAC, IPv4: "10.0.0.9", CIDRv4: "10.0.0.9/24", Netmask: 24, Gateway: "10.0.0.1", FQDN: []string{foreignWord}}},
		Disks:      []facts.Disk{{Path: "/dev/vda", SizeBytes: 20e9, Serial: foreignWord}}, Journal: []string{foreignWord},
	}))(t), "")
	testkit.Must(t, err)
	return w
}

// furnish puts a foreign cluster into the store, with a run and a job.
func (w *world) furnish() {
	ctx := w.t.Context()
	c := testkit.Value(w.store.CreateCluster(ctx, store.Cluster{Name: foreignCluster, Provider: "metal", Document: []byte("# " + foreignWord + "\nkind: Cluster\n")}))(w.t)
	p := &plan.Plan{Verb: "apply", Cluster: foreignCluster, Steps: []*plan.Step{{ID: "s", Action: plan.Create, Title: foreignWord, Subject: foreignWord, Run: func(context.Context, plan.Progress) error { return nil }}}}
	testkit.Value(plan.Execute(ctx, p, plan.Options{Journal: w.store.Journal(c.ID)}))(w.t)
	w.run = testkit.Value(w.store.Runs(ctx, foreignCluster, 1))(w.t)[0].ID
	j := testkit.Value(w.store.AddJob(ctx, store.Job{Cluster: foreignCluster, Verb: "apply", Who: foreignWord, Request: []byte(`{"verb": "apply", "document": "` + foreignWord + `"}`)}))(w.t)
	w.job = j.ID
	testkit.Must(w.t, w.store.Note(ctx, store.AuditEntry{At: time.Now(), Who: foreignWord, Action: "POST /x", Cluster: foreignCluster, Outcome: "done"}))
}

// foreign replaces the variables of a pattern by foreign objects. Extend it for routes with a new variable.
func (w *world) foreign(pattern string) (path string, known bool) {
	things := map[string]string{"name": foreignCluster, "uuid": foreignUUID, "machine": foreignUUID, "selector": "uuid=" + foreignUUID, "boot": "c0ffee00-0000-4000-8000-000000000001",
		"roles": "kubernetes-node", "role": "kubernetes-node", "verb": "name", "result": "success"}
	things["id"] = w.job
	if strings.Contains(pattern, "/runs/") {
		things["id"] = w.run
	}
	known = true
	path = regexp.MustCompile(`\{([a-z]+)\}`).ReplaceAllStringFunc(strings.ReplaceAll(pattern, "{$}", ""), func(part string) string {
		thing, is := things[strings.Trim(part, "{}")]
		known = known && is
		return thing
	})
	return path, known
}

// bodies are requests for a foreign cluster, for routes that take it from the body. Extend them for a new route that decides access itself.
var bodies = map[string]string{
	"POST /api/v1/plans":   `{"verb": "apply", "cluster": "` + foreignCluster + `"}`,
	"POST /api/v1/jobs":    `{"verb": "destroy", "cluster": "` + foreignCluster + `", "digest": "x"}`,
	"POST /ui/new":         "document=" + url.QueryEscape("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: "+foreignCluster+"}\nspec:\n  provider: {local: {}}\n  workers: [{name: a}]\n"),
	"POST /api/v1/imports": `{"cluster": "` + foreignCluster + `", "from": "192.0.2.1", "identity": "x", "knownHosts": "x"}`,
}

type got struct {
	code int
	body string
}

// ask sends a request as a program, or for pages as a browser. It reads only the beginning of a streamed answer.
func (w *world) ask(m server.Mount, method, path, body, token string) got {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	r := testkit.Value(http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body)))(w.t)
	r.Header.Set("Content-Type", "application/json")
	switch {
	case token == "":
	case m.Pages:
		if w.cookies[token] == "" {
			secret, _, err := w.gate.BeginByToken(httptest.NewRequest("POST", "/ui/login", nil), "", token, time.Hour)
			testkit.Must(w.t, err)
			w.cookies[token] = secret
		}
		r.Header.Set("Cookie", "__Host-naupegos="+w.cookies[token])
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	default:
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := testkit.Value(w.client.Do(r))(w.t)
	defer resp.Body.Close()
	if m.Stream { // it has no end; its beginning tells what it may show
		defer time.AfterFunc(2*time.Second, cancel).Stop()
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20)) // the beginning suffices
	return got{resp.StatusCode, string(data)}
}

// TestEveryRouteKeepsForeignersOut goes through all mounted routes of a server: without a token, and with each role, limited to another cluster. No
// answer contains foreign data, and requests are answered with 401, 403 or 404.
func TestEveryRouteKeepsForeignersOut(t *testing.T) {
	w := newWorld(t)
	roles := []server.Role{server.Read, server.Operate, server.Admin}
	scoped, whole := map[server.Role]string{}, map[server.Role]string{}
	for _, role := range roles {
		var err error
		scoped[role], _, err = access.NewToken(t.Context(), w.store, "liz", role, "demo", time.Hour)
		testkit.Must(t, err)
		whole[role], _, err = access.NewToken(t.Context(), w.store, "ann", role, "", time.Hour)
		testkit.Must(t, err)
	}
	routes := 0
	for _, part := range w.parts {
		for _, m := range part.Mounts {
			method, pattern, named := strings.Cut(m.Pattern, " ")
			if !named {
				method, pattern = "GET", m.Pattern
			}
			path, known := w.foreign(pattern)
			if !known {
				t.Errorf("%s: this test does not know what a part of the path is", m.Pattern)
				continue
			}
			if m.On == server.Front { // only the front process may use it
				if a := w.ask(m, method, path, "", whole[server.Admin]); a.code != 404 {
					t.Errorf("%s answers a client: %d %.300s", m.Pattern, a.code, a.body)
				}
				continue
			}
			if m.Need == server.Anybody { // it returns no data, or acts for one machine alone
				continue
			}
			routes++
			body, has := bodies[m.Pattern]
			if m.Scope.Decided() && method != "GET" && !has {
				t.Errorf("%s decides by itself, and this test has no body that names a foreign cluster", m.Pattern)
			}
			queries := []string{""}
			if m.Scope.Decided() && method == "GET" {
				queries = []string{"", "?cluster=" + foreignCluster, "?of=/ui/machines/" + foreignUUID, "?of=/ui/approvals", "?of=/ui/clusters/" + foreignCluster}
			}
			for _, query := range queries {
				if a := w.ask(m, method, path+query, body, ""); a.code != 401 && a.code != 303 && a.code != 429 {
					t.Errorf("%s without a token: %d", m.Pattern, a.code)
				}
				for _, role := range roles {
					a := w.ask(m, method, path+query, body, scoped[role])
					w.nothing(m, role, path+query+body, a)
					if a.code != 403 && a.code != 404 && (!m.Scope.Decided() || method != "GET") {
						t.Errorf("%s with %s of another cluster: %d %.300s", m.Pattern, role, a.code, a.body)
					}
				}
			}
			if strings.Contains(pattern, "{name}") { // an own cluster that does not exist: errors must not suggest foreign names
				for _, role := range roles {
					own := strings.ReplaceAll(path, foreignCluster, "demo")
					w.nothing(m, role, own, w.ask(m, method, own, body, scoped[role]))
				}
			}
			for _, role := range roles {
				enough := slices.Index(roles, role) >= slices.Index(roles, m.Need)
				if enough && (method != "GET" || m.Stream) { // a permitted action may take its time, and other tests cover it
					continue
				}
				if a := w.ask(m, method, path, body, whole[role]); (a.code == 403 || a.code == 401) == enough {
					t.Errorf("%s with %s: %d %.300s", m.Pattern, role, a.code, a.body)
				}
			}
		}
	}
	if routes < 70 {
		t.Errorf("there are %d routes for operators: some are not mounted by their roles", routes)
	}
	t.Logf("%d routes", routes)
	testkit.Value(store.VerifyAudit(t.Context(), w.store))(t)
}

// nothing checks that an answer contains no foreign data, except for texts that the request contains.
func (w *world) nothing(m server.Mount, role server.Role, asked string, a got) {
	w.t.Helper()
	for _, word := range []string{foreignWord, foreignCluster, foreignMAC, foreignUUID, w.job, w.run} {
		if !strings.Contains(asked, word) && strings.Contains(a.body, word) {
			w.t.Errorf("%s with %s of another cluster tells %s: %.400s", m.Pattern, role, word, a.body)
		}
	}
}
