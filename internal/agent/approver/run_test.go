package approver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// fakeAPI is the part of an API server that the approver uses.
type fakeAPI struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string]map[string]any
	version  int
	down     bool
	conflict bool
	refused  int           // approvals that got a conflict
	changed  chan struct{} // closed and replaced at each change
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	a := &fakeAPI{objects: map[string]map[string]any{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+collection, a.list)
	mux.HandleFunc("PUT "+collection+"/{name}/approval", a.approval)
	a.Server = httptest.NewTLSServer(mux)
	t.Cleanup(a.CloseClientConnections)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAPI) put(name string, r request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.objects[name] = map[string]any{
		"metadata": map[string]any{"name": name, "uid": "u-" + name, "resourceVersion": fmt.Sprint(a.version), "labels": map[string]any{"kept": "yes"}},
		"spec": map[string]any{"signerName": r.SignerName, "username": r.Username, "groups": r.Groups, "usages": r.Usages,
			"request": base64.StdEncoding.EncodeToString(r.Request), "expirationSeconds": 3600},
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	if a.down {
		a.mu.Unlock()
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	changed := a.changed
	if r.URL.Query().Get("fieldSelector") != "spec.signerName="+signer {
		http.Error(w, "no selector", http.StatusBadRequest)
	}
	items := []any{}
	for _, o := range a.objects {
		items = append(items, o)
	}
	enc := json.NewEncoder(w)
	if r.URL.Query().Get("watch") == "" {
		_ = enc.Encode(map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(a.version)}, "items": items})
		a.mu.Unlock()
		return
	}
	a.mu.Unlock()
	w.(http.Flusher).Flush()
	select {
	case <-changed:
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, o := range a.objects {
			_ = enc.Encode(map[string]any{"type": "ADDED", "object": o})
		}
	case <-time.After(time.Second):
	case <-r.Context().Done():
	}
}

func (a *fakeAPI) approval(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conflict {
		a.refused++
		http.Error(w, "the request was changed meanwhile", http.StatusConflict)
		return
	}
	var o map[string]any
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.objects[r.PathValue("name")] = o
}

// condition returns "Approved" or "Denied" and the message; empty while undecided.
func (a *fakeAPI) condition(name string) (kind, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status, _ := a.objects[name]["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	if len(conditions) == 0 {
		return "", ""
	}
	c := conditions[0].(map[string]any)
	return c["type"].(string), c["message"].(string)
}

// decides returns a condition: the request has this decision.
func (a *fakeAPI) decides(name, want string) func() error {
	return func() error {
		if kind, why := a.condition(name); kind != want {
			return fmt.Errorf("%s is %q (%s), not %s", name, kind, why, want)
		}
		return nil
	}
}

// Conditions come true within moments, unless the host is busy.
const soon, tick = 20 * time.Second, 5 * time.Millisecond

// says returns a condition: the log contains these words.
func says(log *testkit.Buffer, words string) func() error {
	return testkit.That("the log says "+words, func() bool { return strings.Contains(log.String(), words) })
}

// kubeconfig writes a kubeconfig for the server.
func (a *fakeAPI) kubeconfig(t *testing.T) string {
	t.Helper()
	pair := pkitest.NewAuthority(t).Issue(pki.LeafSpec{CommonName: "naupegos:approver", Client: true})
	server := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	b64 := base64.StdEncoding.EncodeToString
	p := filepath.Join(t.TempDir(), "approver.conf")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: %s\n    certificate-authority-data: %s\nusers:\n- name: u\n  user:\n    client-certificate-data: %s\n    client-key-data: %s\n",
		a.URL, b64(server), b64(pair.CertPEM), b64(pair.KeyPEM))
	testkit.Must(t, os.WriteFile(p, []byte(text), 0o600))
	return p
}

func start(t *testing.T, a *fakeAPI, machines string) *testkit.Buffer {
	t.Helper()
	log := &testkit.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	o := Options{Kubeconfig: a.kubeconfig(t), Machines: machines, Log: slog.New(slog.NewTextHandler(log, nil)), Retry: 10 * time.Millisecond, Resync: time.Second}
	go func() { done <- Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return log
}

func TestRun(t *testing.T) {
	a := newFakeAPI(t)
	a.down = true
	machines := filepath.Join(t.TempDir(), "machines.json")
	testkit.Must(t, os.WriteFile(machines, []byte(`{"nodes":{}}`), 0o600))
	log := start(t, a, machines)
	testkit.Until(t, soon, tick, says(log, "503 Service"))
	a.put("good", honest().make(t))
	a.mu.Lock()
	a.down = false
	a.mu.Unlock()
	testkit.Until(t, soon, tick, says(log, "left pending"))
	if kind, _ := a.condition("good"); kind != "" {
		t.Fatalf("a node that is not in the file was %s", kind)
	}
	testkit.Must(t, os.WriteFile(machines+".new", []byte(`{"nodes":{"demo-cp-1":["10.0.0.21"]}}`), 0o600))
	testkit.Must(t, os.Rename(machines+".new", machines))
	testkit.Until(t, soon, tick, a.decides("good", "Approved"))
	if a.objects["good"]["metadata"].(map[string]any)["labels"] == nil {
		t.Error("the object was not sent back whole")
	}
	bad := honest()
	bad.Username = "system:node:demo-w-1"
	a.put("bad", bad.make(t))
	testkit.Until(t, soon, tick, a.decides("bad", "Denied"))
	if _, why := a.condition("bad"); !strings.Contains(why, "common name") {
		t.Errorf("denied because %q", why)
	}
	if strings.Count(log.String(), "left pending") != 1 || strings.Count(log.String(), "503 Service") != 1 {
		t.Errorf("the log repeats itself:\n%s", log)
	}
}

func TestTwoApproversDoNoHarm(t *testing.T) {
	a := newFakeAPI(t)
	a.conflict = true
	machines := filepath.Join(t.TempDir(), "machines.json")
	testkit.Must(t, os.WriteFile(machines, []byte(`{"nodes":{"demo-cp-1":["10.0.0.21"]}}`), 0o600))
	log := start(t, a, machines)
	a.put("good", honest().make(t))
	testkit.Until(t, soon, tick, testkit.That("an approval meets the conflict twice", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.refused >= 2
	}))
	a.mu.Lock()
	a.conflict = false
	a.mu.Unlock()
	testkit.Until(t, soon, tick, a.decides("good", "Approved"))
	if strings.Contains(log.String(), "can't") {
		t.Errorf("a conflict is logged as a fault:\n%s", log)
	}
}

func TestUnreadableFiles(t *testing.T) {
	a := newFakeAPI(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"no-json": "{", "none": ""} {
		p := filepath.Join(dir, name)
		if content != "" {
			testkit.Must(t, os.WriteFile(p, []byte(content), 0o600))
		}
		if err := Run(t.Context(), Options{Kubeconfig: a.kubeconfig(t), Machines: p}); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("machines %s: %v", name, err)
		}
		if err := Run(t.Context(), Options{Kubeconfig: p, Machines: p}); err == nil || fail.KindOf(err) == fail.Internal {
			t.Errorf("kubeconfig %s: %v", name, err)
		}
	}
}
