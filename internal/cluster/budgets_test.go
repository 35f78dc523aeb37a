package cluster

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
)

// TestWarnOfBudgets: a plan that drains a node names its pods that several budgets select, once each; other plans ask nothing.
func TestWarnOfBudgets(t *testing.T) {
	doc := document(t, 1, 0, 2)
	budget := func(name, key string) object {
		return object{"metadata": object{"namespace": "shop", "name": name}, "spec": object{"selector": object{"matchLabels": object{key: "web"}}}, "status": object{"disruptionsAllowed": 1}}
	}
	asked, broken := 0, false
	api := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		list := object{"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": []object{budget("a", "app"), budget("b", "tier")}}
		if r.URL.Path == "/api/v1/pods" {
			list = object{"kind": "PodList", "apiVersion": "v1", "items": []object{{
				"metadata": object{"namespace": "shop", "name": "web-1", "labels": object{"app": "web", "tier": "web"}},
				"spec":     object{"nodeName": "demo-a-1"}, "status": object{"phase": "Running"},
			}}}
		}
		w.Header().Set("Content-Type", "application/json")
		if broken {
			w.WriteHeader(http.StatusForbidden)
			list = object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no entry"}
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	for name, c := range map[string]struct {
		steps  []string
		known  []string
		broken bool
		want   string
	}{
		"a drain":              {[]string{"drain/demo-a-1", "destroy/demo-a-1"}, nil, false, "drain of node demo-a-1 would fail: shop/web-1 is held by 2 disruption budgets at once, a and b"},
		"of another node":      {[]string{"drain/demo-a-2"}, nil, false, ""},
		"known already":        {[]string{"drain/demo-a-1"}, []string{"drain of node demo-a-1 would wait: shop/web-1 is held by 2 disruption budgets"}, false, ""},
		"of a similar pod":     {[]string{"drain/demo-a-1"}, []string{"drain of node demo-a-1 would wait: shop/web-10 is held by x"}, false, "shop/web-1 is held"},
		"no drain":             {[]string{"configure/demo-a-1"}, nil, false, ""},
		"an API that declines": {[]string{"drain/demo-a-1"}, nil, true, "it is unknown whether disruption budgets allow the drains: "},
	} {
		l := newLab(t, doc).Running(doc)
		l.UseAPI(api)
		asked, broken = 0, c.broken
		p := &plan.Plan{}
		for _, id := range c.steps {
			p.Steps = append(p.Steps, &plan.Step{ID: id})
		}
		l.WarnOfBudgets(t.Context(), p, c.known)
		if said := strings.Join(p.Warnings, "\n"); !strings.Contains(said, c.want) || c.want == "" && said != "" || strings.Contains(said, "\n") {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
		if drains := slices.ContainsFunc(c.steps, func(id string) bool { return strings.HasPrefix(id, "drain/") }); !drains && asked > 0 {
			t.Errorf("%s: the API is asked %d times", name, asked)
		}
	}
}
