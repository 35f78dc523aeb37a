//go:build e2e

package addon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRealPrometheus gives the rendered configuration to the real programs on loopback: all rules are taken, an alert reaches a webhook, metrics reach another server,
// and Alertmanager takes another configuration without a restart.
func TestRealPrometheus(t *testing.T) {
	testkit.OnlyFull(t, "TestSite has the rendered configuration")
	all := bundletest.All(t)
	i := slices.IndexFunc(all, func(b *bundle.Bundle) bool { return b.Manifest.Has([]string{addon.NamePrometheus}) })
	if i < 0 {
		t.Fatal("this test needs a bundle with the addon: naupegos bundle build --addons prometheus")
	}
	dir := t.TempDir()
	var got arrivals
	hook := httptest.NewServer(&got)
	defer hook.Close()
	port, alerts := testkit.FreePort(t), testkit.FreePort(t)
	files := configurations(t, hook.URL, all[i].Manifest)
	// What only pods have: names in DNS, and the ConfigMap of the user.
	replaced := func(text, old, now string) string {
		if strings.Count(text, old) == 0 {
			t.Fatalf("the configuration lacks %s", old)
		}
		return strings.ReplaceAll(text, old, now)
	}
	conf := replaced(files["prometheus.yml"], "alertmanager-a-0.alertmanager-peers:9093", fmt.Sprintf("127.0.0.1:%d", alerts))
	conf = replaced(conf, "/etc/prometheus-extra", dir)
	for name, text := range map[string]string{"prometheus.yml": conf, "rules.yml": files["rules.yml"], "alertmanager.yml": files["alertmanager.yml"],
		"rules-own.yml":  "groups: [{name: own, rules: [{alert: Probe, expr: vector(1), labels: {severity: critical}}]}]\n",
		"scrape-own.yml": fmt.Sprintf("scrape_configs: [{job_name: own, static_configs: [{targets: ['127.0.0.1:%d']}]}]\n", port)} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run(t, all[i], dir, "alertmanager", "--config.file="+dir+"/alertmanager.yml", "--storage.path="+dir+"/alerts", "--cluster.listen-address=", fmt.Sprintf("--web.listen-address=127.0.0.1:%d", alerts))
	run(t, all[i], dir, "prometheus", "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/metrics", fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port))

	server := fmt.Sprintf("http://127.0.0.1:%d", port)
	testkit.Until(t, time.Minute, 200*time.Millisecond, func() error { _, err := ask(server + "/-/ready"); return err })
	rules := testkit.Value(ask(server + "/api/v1/rules"))(t)
	var list struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	testkit.Must(t, json.Unmarshal(rules, &list))
	n := 0
	for _, g := range list.Data.Groups {
		n += len(g.Rules)
		for _, r := range g.Rules {
			if r.Health == "err" {
				t.Errorf("rule %s: %s", r.Name, r.LastError)
			}
		}
	}
	if want := strings.Count(files["rules.yml"], "- alert: ") + 1; n != want {
		t.Errorf("%d rules of %d", n, want)
	}
	for _, q := range figures.Queries() { // of the pages, as they ask them
		for _, node := range []string{"", `,node="demo-cp-1"`} {
			expr := strings.NewReplacer("$node", node, "$window", "300s").Replace(q.Expr)
			if _, err := ask(server + "/api/v1/query_range?start=0&end=3600&step=60&timeout=5s&limit=501&query=" + url.QueryEscape(expr)); err != nil {
				t.Errorf("the chart %s: %v", q.ID, err)
			}
		}
	}
	testkit.Until(t, 2*time.Minute, time.Second, func() error {
		body, err := ask(server + "/api/v1/query?query=up")
		if err == nil && !bytes.Contains(body, []byte(`"job":"own"`)) {
			err = fmt.Errorf("nothing is read: %s", body)
		}
		return err
	})
	took := testkit.Until(t, 2*time.Minute, time.Second, func() error { return got.has("/first", `"alertname":"Probe"`, `"cluster":"demo"`, `"site":"north $1"`) })
	t.Logf("FIGURE the alert arrived %v later", took.Round(time.Second))
	testkit.Until(t, 2*time.Minute, time.Second, func() error { return got.has("/write", "") })
	if text := got.text("/first"); strings.Contains(text, `"replica"`) {
		t.Errorf("the alert says which pod sent it: %s", text)
	}
	next := replaced(replaced(files["alertmanager.yml"], hook.URL+"/first", hook.URL+"/second"), "to-hook", "to-other") // the former one knows the alert
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "alertmanager.yml"), []byte(next), 0o600))
	testkit.Until(t, 2*time.Minute, time.Second, func() error { return got.has("/second", `"alertname":"Probe"`) })
}

// configurations returns the rendered files of Prometheus and Alertmanager, which send to a server.
func configurations(t *testing.T, to string, m bundle.Manifest) map[string]string {
	t.Helper()
	doc := testkit.Value(validation.Parse("cluster.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n"+
		"  addons: [{name: prometheus, prometheus: {scrapeInterval: 10s, externalLabels: {site: 'north $1'}, receivers: [{name: hook, kind: webhook, url: '"+to+"/first', match: {severity: critical}}], "+
		"remoteWrite: [{url: '"+to+"/write'}]}}]\n")))(t)
	text := testkit.Value(addon.RenderSite(addon.Input{Doc: doc, Bundle: m}, doc.Spec.Addons[0]))(t)
	files := map[string]string{}
	for _, o := range testkit.Value(manifest.Parse(text))(t) {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		for name, content := range o.Object["data"].(map[string]any) {
			files[name] = content.(string)
		}
	}
	return files
}

// run starts a program of the bundle, as in a pod, until the test ends.
func run(t *testing.T, b *bundle.Bundle, dir, name string, args ...string) {
	t.Helper()
	program := testkit.Value(b.Program(t.Context(), name, dir))(t)
	log := testkit.Value(os.Create(filepath.Join(dir, name+".log")))(t)
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, []string{"POD_NAME=" + name + "-a-0"}, log, log
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s: %s", name, text)
		}
	})
}

// ask returns the answer to a request that succeeds.
func ask(url string) ([]byte, error) {
	resp, err := http.Get(url) //nolint:noctx // on loopback
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// arrivals keeps the bodies of requests, by path.
type arrivals struct {
	mutex sync.Mutex
	by    map[string]string
}

func (a *arrivals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the test fails if a part is missing
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.by == nil {
		a.by = map[string]string{}
	}
	a.by[r.URL.Path] += string(body)
}

func (a *arrivals) text(path string) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.by[path]
}

// has returns an error until all words have arrived at a path.
func (a *arrivals) has(path string, words ...string) error {
	text := a.text(path)
	for _, w := range words {
		if text == "" || !strings.Contains(text, w) {
			return fmt.Errorf("%s has not arrived at %s: %.2000s", w, path, text)
		}
	}
	return nil
}
