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
	"os"
	"path/filepath"
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
	"github.com/naupegos/naupegos/internal/server/problem"
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
	file := filepath.Join(t.TempDir(), "agent")
	testkit.Must(t, os.WriteFile(file, []byte("#!/bin/false\n"), 0o755)) // nothing runs it
	agent := func() (string, error) { return file, nil }
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
	testkit.Value(reg.Approve(t.Context(), foreignUUID, "", "ann"))(t)
	testkit.Value(reg.Maintain(t.Context(), foreignUUID, foreignWord))(t)
	return w
}

// A cluster of an operator of one cluster, which lacks machines.
const (
	ownCluster  = "rowers"
	ownDocument = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + ownCluster + "}\nspec:\n  provider: {metal: {}}\n  endpoint: {kind: address, address: k8s.example.org}\n" +
		"  controlPlane: {replicas: 1}\n  workers: [{name: general, replicas: 1}]\n"
)

// furnish puts a foreign cluster into the store, with a run and a job, and the cluster of an operator of one cluster.
func (w *world) furnish() {
	ctx := w.t.Context()
	c := testkit.Value(w.store.CreateCluster(ctx, store.Cluster{Name: foreignCluster, Provider: "metal", Document: []byte("# " + foreignWord + "\nkind: Cluster\n")}))(w.t)
	testkit.Value(w.store.CreateCluster(ctx, store.Cluster{Name: ownCluster, Provider: "metal", Document: []byte(ownDocument)}))(w.t)
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
		"roles": "kubernetes-node", "role": "kubernetes-node", "verb": "name", "result": "success", "namespace": "shop", "pod": "web-1"}
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
// answer contains foreign data, also about an own cluster, and requests for foreign things are answered with 401, 403 or 404.
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
	owner, _, err := access.NewToken(t.Context(), w.store, "liz", server.Admin, ownCluster, time.Hour)
	testkit.Must(t, err)
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
				own := strings.ReplaceAll(path, foreignCluster, ownCluster) // one that exists
				a := w.ask(m, method, own, `{}`, owner)
				if w.nothing(m, server.Admin, own, a); strings.HasSuffix(own, "/checks") && !strings.Contains(a.body, "there are not enough machines") {
					t.Errorf("%s: %d %s", own, a.code, a.body)
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

// TestRefusalsKeepForeignersOut: what is refused to an operator of one cluster about this cluster names no foreign machine and no word about it; an
// operator of all clusters gets the whole refusal.
func TestRefusalsKeepForeignersOut(t *testing.T) {
	w := newWorld(t)
	token := func(role server.Role, cluster string) string {
		text, _, err := access.NewToken(t.Context(), w.store, "liz", role, cluster, time.Hour)
		testkit.Must(t, err)
		return text
	}
	document := testkit.Value(json.Marshal(ownDocument))(t)
	apply, bring := `{"verb": "apply", "cluster": "`+ownCluster+`"}`, `{"verb": "apply", "document": `+string(document)+`}`
	plans := server.Mount{Pattern: "POST /api/v1/plans"}
	for role, body := range map[server.Role]string{server.Read: apply, server.Operate: bring, server.Admin: apply} {
		a := w.ask(plans, "POST", "/api/v1/plans", body, token(role, ownCluster))
		if w.nothing(plans, role, body, a); a.code != 403 || !strings.Contains(a.body, "there are not enough machines") || !strings.Contains(a.body, "1 in maintenance") {
			t.Errorf("%s: %d %s", role, a.code, a.body)
		}
		if a := w.ask(plans, "POST", "/api/v1/plans", body, token(role, "")); a.code != 403 || !strings.Contains(a.body, foreignWord) {
			t.Errorf("%s of all clusters: %d %s", role, a.code, a.body)
		}
	}
}

// nothing checks that an answer contains no foreign data, except for texts that the request contains.
func (w *world) nothing(m server.Mount, role server.Role, asked string, a got) {
	w.t.Helper()
	for _, word := range []string{foreignWord, foreignCluster, foreignMAC, foreignUUID, w.job, w.run} {
		if !strings.Contains(asked, word) && strings.Contains(a.body, word) {
			w.t.Errorf("%s with %s of another cluster reveals %s: %.400s", m.Pattern, role, word, a.body)
		}
	}
}

// TestProcessesAreHidden: an operator of one cluster learns of its runs, jobs, duties and leases, and not on which hosts and by which processes they run.
func TestProcessesAreHidden(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	c := testkit.Value(w.store.Cluster(ctx, ownCluster))(t)
	p := &plan.Plan{Verb: "apply", Cluster: ownCluster, Steps: []*plan.Step{{ID: "s", Action: plan.Create, Title: "s", Subject: "s", Run: func(context.Context, plan.Progress) error { return nil }}}}
	testkit.Value(plan.Execute(ctx, p, plan.Options{Journal: w.store.Journal(c.ID)}))(t)
	w.run = testkit.Value(w.store.Runs(ctx, ownCluster, 1))(t)[0].ID
	w.job = testkit.Value(w.store.AddJob(ctx, store.Job{Cluster: ownCluster, Verb: "apply", Who: "liz", Request: []byte(`{"verb": "apply"}`)}))(t).ID
	for {
		if j := testkit.Value(w.store.ClaimJob(ctx, time.Minute))(t); j == nil || j.ID == w.job {
			break
		}
	}
	testkit.Value(w.store.TakeDuty(ctx, ownCluster, "drift", time.Minute))(t)
	lease := testkit.Value(w.store.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}))(t)
	defer func() { testkit.Must(t, lease.Release(ctx)) }()
	tokens := map[string]string{}
	for _, cluster := range []string{ownCluster, ""} {
		var err error
		tokens[cluster], _, err = access.NewToken(ctx, w.store, "liz", server.Admin, cluster, time.Hour)
		testkit.Must(t, err)
	}
	seen := map[string]int{}
	for _, part := range w.parts {
		for _, m := range part.Mounts {
			method, pattern, _ := strings.Cut(m.Pattern, " ")
			path, _ := w.foreign(pattern)
			path = strings.ReplaceAll(path, foreignCluster, ownCluster)
			body := ""
			switch {
			case m.Need == server.Anybody || m.On == server.Front || strings.HasSuffix(path, "/live"):
				continue
			case strings.HasSuffix(path, "/events"), strings.HasSuffix(path, "/describe"):
				body = "{}"
			case method != "GET":
				continue
			}
			for cluster, token := range tokens {
				a := w.ask(m, method, path, body, token)
				if strings.Contains(a.body, ", pid ") {
					seen[cluster]++
					if cluster != "" {
						t.Errorf("%s reveals the process: %.600s", m.Pattern, a.body)
					}
				}
			}
		}
	}
	if seen[""] < 8 { // otherwise this test shows nothing
		t.Errorf("%d routes show processes to an operator of all clusters", seen[""])
	}
	_, err := w.store.AcquireLease(ctx, c.ID, "destroy", store.LeaseOptions{})
	if testkit.Fails(t, fail.Whole(err), fail.Conflict, ", pid "); strings.Contains(err.Error(), ", pid ") {
		t.Errorf("the record of a conflict reveals the process: %v", err)
	}
}

// TestMistakesAreProblems: every refusal of the API, also those of its router and of its reader of requests, is a problem document with a kind, and
// repeats no content of the request.
func TestMistakesAreProblems(t *testing.T) {
	w := newWorld(t)
	token, _, err := access.NewToken(t.Context(), w.store, "ann", server.Admin, "", time.Hour)
	testkit.Must(t, err)
	const secret = "hunter2hunter2"
	many := `{"verb": "apply"` + strings.Repeat(`, "x`+strings.Repeat("y", 1000)+`": 1`, 100) + `}`
	for name, c := range map[string]struct {
		method, path, body, kind, accept string
		code                             int
	}{
		"no JSON":                {"POST", "/api/v1/plans", secret, "application/json", "", 400},
		"another kind":           {"POST", "/api/v1/plans", `{"verb": "apply"}`, "text/" + secret, "", 415},
		"an unknown field":       {"POST", "/api/v1/plans", `{"verb": "apply", "cluster": "demo", "extra": "` + secret + `"}`, "application/json", "", 422},
		"an unknown verb":        {"POST", "/api/v1/plans", `{"verb": "` + secret + `"}`, "application/json", "", 422},
		"of another type":        {"POST", "/api/v1/jobs", `{"verb": "apply", "parallel": "` + secret + `"}`, "application/json", "", 422},
		"too many":               {"POST", "/api/v1/plans", many, "application/json", "", 422},
		"no body":                {"POST", "/api/v1/plans", "", "application/json", "", 400},
		"no number":              {"GET", "/api/v1/jobs?limit=" + secret, "", "", "", 422},
		"no path":                {"GET", "/api/v1/nothing", "", "", "", 404},
		"no path, of a browser":  {"GET", "/api/v1/nothing", "", "", "text/html", 404},
		"no method":              {"DELETE", "/api/v1/plans", "", "", "", 405},
		"no such form of answer": {"GET", "/api/v1/jobs", "", "", "application/xml", 200}, // as before: JSON
	} {
		r := testkit.Value(http.NewRequestWithContext(t.Context(), c.method, w.url+c.path, strings.NewReader(c.body)))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", c.kind)
		r.Header.Set("Accept", c.accept)
		resp := testkit.Value(w.client.Do(r))(t)
		data := testkit.Value(io.ReadAll(resp.Body))(t)
		testkit.Must(t, resp.Body.Close())
		if resp.StatusCode != c.code {
			t.Errorf("%s: %d %.300s", name, resp.StatusCode, data)
		}
		if strings.Contains(string(data), secret) || len(data) > 10_000 {
			t.Errorf("%s: it repeats the request: %.1000s", name, data)
		}
		if c.code == 200 {
			continue
		}
		var p problem.Problem
		if err := json.Unmarshal(data, &p); err != nil || p.Status != c.code || p.Detail == "" || fail.Named(p.Kind) == fail.Internal || resp.Header.Get("Content-Type") != problem.ContentType {
			t.Errorf("%s: %v %s %.500s", name, err, resp.Header.Get("Content-Type"), data)
		}
		if c.code == 405 && resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: it allows %q", name, resp.Header.Get("Allow"))
		}
	}
	resp := testkit.Value(w.client.Get(w.url + "/openapi.json"))(t)
	defer resp.Body.Close()
	if text := string(testkit.Value(io.ReadAll(resp.Body))(t)); strings.Contains(text, "ErrorModel") || !strings.Contains(text, "#/components/schemas/ProblemProblem") {
		t.Error("the description has another form of errors", strings.Contains(text, "ErrorModel"))
	}
}

// TestNoDirectoryIsListed: the pages' files are served, and no list of them.
func TestNoDirectoryIsListed(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/ui/static/style.css": 200, "/ui/static/": 404, "/ui/static/nothing": 404, "/ui/static/.": 404, "/ui/static/../": 404} {
		a := w.ask(server.Mount{}, "GET", path, "", "")
		if a.code != want && a.code != 307 && a.code != 303 || want != 200 && strings.Contains(a.body, "live.js") {
			t.Errorf("%s: %d %.200s", path, a.code, a.body)
		}
	}
}

// TestEveryPageIsOfTheSiteAlone: no form of the pages is taken from another site, not even with an administrator's cookie, no route of the API takes that
// cookie, and each answer of the pages forbids frames and foreign scripts.
func TestEveryPageIsOfTheSiteAlone(t *testing.T) {
	w := newWorld(t)
	token, _, err := access.NewToken(t.Context(), w.store, "ann", server.Admin, "", time.Hour)
	testkit.Must(t, err)
	cookie, _, err := w.gate.BeginByToken(httptest.NewRequest("POST", "/ui/login", nil), "", token, time.Hour)
	testkit.Must(t, err)
	forms, pages, calls := 0, 0, 0
	for _, part := range w.parts {
		for _, m := range part.Mounts {
			method, pattern, named := strings.Cut(m.Pattern, " ")
			if !named {
				method, pattern = "GET", m.Pattern
			}
			path, _ := w.foreign(pattern)
			page := strings.HasPrefix(path, "/ui/")
			if m.On == server.Front || m.Stream || !page && m.Need == server.Anybody {
				continue
			}
			r := testkit.Value(http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader("sure=yes&cluster="+foreignCluster)))(t)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", "__Host-naupegos="+cookie)
			if method != "GET" {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Origin", "https://evil.example")
			}
			resp := testkit.Value(w.client.Do(r))(t)
			testkit.Must(t, resp.Body.Close())
			switch {
			case !page:
				if calls++; resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusTooManyRequests {
					t.Errorf("%s takes the cookie of the pages: %d", m.Pattern, resp.StatusCode)
				}
				continue
			case method != "GET":
				if forms++; resp.StatusCode != http.StatusForbidden {
					t.Errorf("%s takes another site's form: %d", m.Pattern, resp.StatusCode)
				}
			default:
				pages++
			}
			if h := resp.Header; !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d with %v", m.Pattern, resp.StatusCode, h)
			}
		}
	}
	if forms < 20 || pages < 25 || calls < 30 { // some are not mounted by their roles
		t.Errorf("%d forms, %d pages and %d calls of the API", forms, pages, calls)
	}
	t.Logf("%d forms, %d pages, %d calls of the API", forms, pages, calls)
	c := testkit.Value(w.store.Cluster(t.Context(), foreignCluster))(t)
	if m := testkit.Value(w.store.Metal().Machine(t.Context(), foreignUUID))(t); c == nil || m.Approval != "approved" {
		t.Errorf("a form did something: %+v", m)
	}
}
