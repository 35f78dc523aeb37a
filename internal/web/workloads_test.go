package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/running"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// inhabited is the cluster harbour with workloads, and what the pages asked it for.
type inhabited struct {
	asked []running.Ask
	logs  []running.LogOf
	fails error
	next  string
}

// inhabit adds the cluster harbour. All texts of its workloads are evil.
func (s *site) inhabit(pods int) *inhabited {
	s.t.Helper()
	c := testkit.Value(s.store.CreateCluster(s.t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(s.t)
	s.saw(c.ID, &report.Status{Name: "harbour", State: report.Healthy, API: "ready"})
	in := &inhabited{}
	s.pages.inside = insider{
		workloads: func(_ context.Context, _ *Pages, _ *access.Operator, _ string, ask running.Ask) (*running.List, error) {
			in.asked = append(in.asked, ask)
			list := &running.List{Kind: ask.Kind, Continue: in.next, Read: pods}
			for i := range pods {
				w := running.Workload{Namespace: "shop", Name: fmt.Sprint("web-", i), State: "Running", OK: true, Ready: "1 of 1", Restarts: i, Created: time.Now().Add(-time.Hour), Node: "harbour-general-1", Images: []string{"registry.example.org/web:1.2.3"}, Containers: []string{"web"}}
				if i%3 == 0 {
					w.OK, w.State, w.Why = false, "CrashLoopBackOff", "container web: back-off "+evil
				}
				if ask.Kind != running.Pods {
					w.Selector, w.Containers = "app=web", nil
				}
				list.Items = append(list.Items, w)
			}
			return list, in.fails
		},
		events: func(context.Context, *Pages, *access.Operator, string, operate.EventsOf) (*operate.EventList, error) {
			return &operate.EventList{Items: []operate.Happened{
				{At: time.Now().Add(-3 * time.Minute), Warning: true, Object: "Pod shop/web-1", Reason: "BackOff", Text: "restarts " + evil + "\x1b[2J", Count: 7},
				{At: time.Now().Add(-2 * time.Minute), Object: "Pod lake/x", Reason: "Pulled", Text: "pulled", Count: 1},
			}, Problem: map[bool]string{true: "no answer"}[in.fails != nil]}, nil
		},
		log: func(_ context.Context, _ *Pages, _ *access.Operator, _ string, of running.LogOf) (*running.Log, error) {
			in.logs = append(in.logs, of)
			return &running.Log{Text: "2026-11-30T12:00:00Z password=hunter2 " + evil + "\n", Cut: true}, in.fails
		},
	}
	return in
}

// TestInsideNeedsOperate: logs and workloads may hold secrets: a reader sees neither them nor links to them, and an operator of another cluster nothing.
func TestInsideNeedsOperate(t *testing.T) {
	s := newSite(t)
	in := s.inhabit(3)
	for _, path := range []string{"workloads", "workloads?look=yes", "log/shop/web-1?look=yes&container=web"} {
		if a := s.ask("GET", "/ui/clusters/harbour/"+path, s.reader, nil); a.code != http.StatusForbidden || strings.Contains(a.body, "web-1") && !strings.Contains(path, "web-1") || strings.Contains(a.body, "hunter2") {
			t.Errorf("%s for a reader: %d", path, a.code)
		}
		if a := s.ask("GET", "/ui/clusters/quay/"+path, s.local, nil); a.code != http.StatusNotFound {
			t.Errorf("%s of another cluster: %d", path, a.code)
		}
		if a := s.ask("GET", "/ui/clusters/harbour/"+path, s.local, nil); a.code != http.StatusOK {
			t.Errorf("%s for an operator of the cluster: %d", path, a.code)
		}
	}
	if len(in.asked) != 1 || len(in.logs) != 1 {
		t.Errorf("the cluster was asked %v %v", in.asked, in.logs)
	}
	if a := s.ask("GET", "/ui/clusters/harbour", s.reader, nil); strings.Contains(a.body, "/harbour/workloads") || !strings.Contains(a.body, "/harbour/events") || !strings.Contains(a.body, "/harbour/figures") {
		t.Error("the tabs of a reader")
	}
	if a := s.ask("GET", "/ui/clusters/harbour", s.local, nil); !strings.Contains(a.body, "/harbour/workloads") || !strings.Contains(a.body, "/harbour/events") {
		t.Error("the tabs of an operator")
	}
}

func TestWorkloadsTab(t *testing.T) {
	s := newSite(t)
	in := s.inhabit(100)
	a := s.ask("GET", "/ui/clusters/harbour/workloads?namespace=shop&bad=yes", s.admin, nil)
	for _, want := range []string{`data-later="/ui/clusters/harbour/workloads?bad=yes&amp;look=yes&amp;namespace=shop" data-every="30"`, `value="shop"`, `value="yes" checked`, `aria-current="true">pods<`, "kubectl get pods -n shop",
		`href="/ui/clusters/harbour/workloads?bad=yes&amp;kind=jobs&amp;namespace=shop">jobs<`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in %s", want, a.body)
		}
	}
	in.next = "eyJ2IjoibWV0YSJ9+/"
	a = s.ask("GET", "/ui/clusters/harbour/workloads?look=yes&bad=yes&continue=abc", s.admin, nil)
	for _, want := range []string{"CrashLoopBackOff", "back-off &lt;script&gt;", `href="/ui/clusters/harbour/log/shop/web-1?container=web"`, "continue=eyJ2IjoibWV0YSJ9%2B%2F&amp;kind=pods", `href="/ui/clusters/harbour/workloads?bad=yes&amp;kind=pods" rel="first"`, `href="/ui/clusters/harbour/machines/harbour-general-1"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in %s", want, a.body)
		}
	}
	if strings.Contains(a.body, evil) || len(a.body) > 100<<10 {
		t.Errorf("a workload's markup is the page's, or the page has %d bytes", len(a.body))
	}
	t.Logf("FIGURE 100 pods have %d bytes", len(a.body))
	if got := in.asked[0]; got != (running.Ask{Kind: running.Pods, NotReady: true, Continue: "abc"}) {
		t.Errorf("asked %+v", got)
	}
	a = s.ask("GET", "/ui/clusters/harbour/workloads?look=yes&kind=deployments", s.admin, nil)
	if want := `href="/ui/clusters/harbour/workloads?kind=pods&amp;namespace=shop&amp;selector=app%3Dweb">web-1<`; !strings.Contains(a.body, want) || strings.Contains(a.body, ">Log<") {
		t.Errorf("there is no %s in %s", want, a.body)
	}
	for _, query := range []string{"kind=secrets", "namespace=../x", "selector=a+in"} {
		if a := s.ask("GET", "/ui/clusters/harbour/workloads?look=yes&"+query, s.admin, nil); a.code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, a.code)
		}
	}
	in.fails = fail.New(fail.Unreachable, "the API does not answer")
	if a := s.ask("GET", "/ui/clusters/harbour/workloads?look=yes", s.admin, nil); a.code != http.StatusOK || !strings.Contains(a.body, "the API does not answer") || !strings.Contains(a.body, `id="namespace"`) {
		t.Errorf("without an answer: %d %s", a.code, a.body)
	}
}

// TestEventsTab: warnings come first, and a namespace narrows the list.
func TestEventsTab(t *testing.T) {
	s := newSite(t)
	in := s.inhabit(0)
	a := s.ask("GET", "/ui/clusters/harbour/events?look=yes", s.admin, nil)
	if warning, other := strings.Index(a.body, "BackOff"), strings.Index(a.body, "Pulled"); warning < 0 || other < warning {
		t.Errorf("warnings at %d, others at %d", warning, other)
	}
	if strings.Contains(a.body, evil) || strings.Contains(a.body, "\x1b") || !strings.Contains(a.body, "restarts &lt;script&gt;") {
		t.Error("an event's text gives orders")
	}
	if a := s.ask("GET", "/ui/clusters/harbour/events?look=yes&namespace=lake", s.admin, nil); strings.Contains(a.body, "BackOff") || !strings.Contains(a.body, "Pulled") {
		t.Error("the events are not those of the namespace")
	}
	in.fails = fail.New(fail.Unreachable, "x")
	if a := s.ask("GET", "/ui/clusters/harbour/events?look=yes", s.admin, nil); !strings.Contains(a.body, "no answer") || !strings.Contains(a.body, "Pulled") {
		t.Error("the tab lacks the reason for missing events, or the known events")
	}
}

// TestLogPage: a log's text stays text, and the audit has each look before the log is read.
func TestLogPage(t *testing.T) {
	s := newSite(t)
	in := s.inhabit(0)
	const page = "/ui/clusters/harbour/log/shop/web-1"
	a := s.ask("GET", page+"?container=web", s.admin, nil)
	if !strings.Contains(a.body, `data-later="`+page+`?container=web&amp;look=yes"`) || strings.Contains(a.body, "data-every") || len(in.logs) != 0 {
		t.Errorf("%d %s", a.code, a.body)
	}
	a = s.ask("GET", page+"?container=web&previous=yes&lines=2000&look=yes", s.admin, nil, "X-Part", "later")
	if !strings.Contains(a.body, "password=hunter2 &lt;script&gt;") || strings.Contains(a.body, evil) || !strings.Contains(a.body, "these are its last lines") || a.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", a.code, a.body)
	}
	if got := in.logs[0]; got != (running.LogOf{Namespace: "shop", Pod: "web-1", Container: "web", Lines: 2000, Previous: true}) {
		t.Errorf("asked %+v", got)
	}
	if n := strings.Count(s.audit(), "read the log of pod shop/web-1 harbour begun"); n != 1 {
		t.Errorf("%d entries of the audit:\n%s", n, s.audit())
	}
	for _, path := range []string{"/ui/clusters/harbour/log/shop/..%2f..%2fsecrets?look=yes", "/ui/clusters/harbour/log/SHOP/a?look=yes", page + "?look=yes&container=a%20b"} {
		if a := s.ask("GET", path, s.admin, nil); a.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, a.code)
		}
	}
	in.fails = fail.New(fail.NotFound, `previous terminated container "web" in pod "web-1" not found`)
	if a := s.ask("GET", page+"?look=yes", s.admin, nil); a.code != http.StatusOK || !strings.Contains(a.body, `role="alert"`) {
		t.Errorf("no such log: %d %s", a.code, a.body)
	}
}
