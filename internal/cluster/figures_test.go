package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/figures/figurestest"
	"github.com/naupegos/naupegos/internal/kube/running"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestInside: figures, workloads and logs come from the cluster's API, the figures from where the addon puts Prometheus; a cluster that never came up has none.
func TestInside(t *testing.T) {
	doc := document(t, 1, 0, 1)
	l := newLab(t, doc)
	_, err := l.Figures(t.Context(), figures.Ask{})
	testkit.Fails(t, err, fail.NotReady, "has not come up yet")
	_, err = l.Workloads(t.Context(), running.Ask{})
	testkit.Fails(t, err, fail.NotReady, "has not come up yet")
	_, err = l.Figures(t.Context(), figures.Ask{Range: "1y"})
	testkit.Fails(t, err, fail.Invalid, "time range")
	l.Running(doc)
	fake := figurestest.Serve(t, 2)
	l.UseAPI(fake.Client)
	if f := testkit.Value(l.Figures(t.Context(), figures.Ask{}))(t); f.Source != "prometheus-a-0" || len(f.Charts[0].Series) != 2 {
		t.Errorf("%+v", f)
	}
	l.UseAPI(servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			fmt.Fprintln(w, "a line")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"shop"},"status":{"phase":"Running"}}]}`)
	}))
	if list := testkit.Value(l.Workloads(t.Context(), running.Ask{}))(t); len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Errorf("%+v", list)
	}
	if log := testkit.Value(l.PodLog(t.Context(), running.LogOf{Namespace: "shop", Pod: "a"}))(t); log.Text != "a line\n" {
		t.Errorf("%+v", log)
	}
}
