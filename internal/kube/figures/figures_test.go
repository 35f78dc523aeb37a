package figures_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/figures/figurestest"
	"github.com/naupegos/naupegos/internal/testkit"
)

var now = time.Date(2026, 11, 30, 14, 5, 42, 0, time.UTC)

func read(t *testing.T, f *figurestest.Fake, ask figures.Ask) *figures.Figures {
	t.Helper()
	return testkit.Value(figures.Of(t.Context(), f.Client, figurestest.Place, ask, now))(t)
}

// TestFigures: all charts have values, one for each step of the range, which ends at a whole step; one pod answers all queries.
func TestFigures(t *testing.T) {
	f := figurestest.Serve(t, 12)
	got := read(t, f, figures.Ask{})
	if got.Range != "1h" || !got.To.Equal(now.Truncate(time.Minute)) || got.To.Sub(got.From) != time.Hour || got.Step != 60 || got.Source != "prometheus-a-0" || got.Missing != "" {
		t.Errorf("%+v", got)
	}
	if len(got.Charts) != len(figures.Queries()) {
		t.Errorf("%d charts", len(got.Charts))
	}
	for _, c := range got.Charts {
		if c.Problem != "" || len(c.Series) == 0 {
			t.Errorf("%s: %q, %d series", c.ID, c.Problem, len(c.Series))
			continue
		}
		s := c.Series[0]
		if _, known := s.Last(); len(s.Values) != 61 || s.Values[20] != nil || s.Values[21] != nil || s.Values[22] == nil || !known {
			t.Errorf("%s: %d values, and those of the gap are %v %v", c.ID, len(s.Values), s.Values[20], s.Values[21])
		}
	}
	if c := got.Charts[0]; len(c.Series) != 12 || c.Series[8].Name != "quay-general-9" || c.Series[9].Name != "quay-general-10" {
		t.Errorf("the machines are not in order: %+v", c.Series)
	}
	asked := f.Asked()
	for _, a := range asked {
		if a.Pod != "prometheus-a-0" || a.Step != "60" || a.Start != strconv.FormatInt(got.From.Unix(), 10) || a.End != strconv.FormatInt(got.To.Unix(), 10) || a.Limit == "" || strings.Contains(a.Query, "$") {
			t.Errorf("asked %+v", a)
		}
	}
	if text := string(testkit.Value(json.Marshal(got))(t)); !strings.Contains(text, "null") || strings.Contains(text, "NaN") {
		t.Error("unknown values are not null")
	}
}

// TestOneMachine: the charts of one machine are those of machines, restricted to this one; rates use the step of a long range.
func TestOneMachine(t *testing.T) {
	f := figurestest.Serve(t, 3)
	got := read(t, f, figures.Ask{Range: "7d", Machine: "quay-general-2"})
	if len(got.Charts) != 5 || len(got.Charts[0].Series) != 1 || got.Charts[0].Series[0].Name != "quay-general-2" {
		t.Errorf("%+v", got.Charts)
	}
	for _, a := range f.Asked() {
		if !strings.Contains(a.Query, `,node="quay-general-2"`) || strings.Contains(a.Query, "rate(") && !strings.Contains(a.Query, "[10080s]") {
			t.Errorf("asked %s", a.Query)
		}
	}
}

// TestAskIsChecked: the only parts of a request in a query are a name and one of four ranges.
func TestAskIsChecked(t *testing.T) {
	f := figurestest.Serve(t, 1)
	for _, ask := range []figures.Ask{{Range: "2h"}, {Range: "1h]"}, {Machine: `a"} or up{x="`}, {Machine: "A"}, {Machine: "-a"}, {Machine: strings.Repeat("a", 64)}, {Machine: "a\n"}} {
		_, err := figures.Of(t.Context(), f.Client, figurestest.Place, ask, now)
		testkit.Fails(t, err, fail.Invalid)
	}
	if n := len(f.Asked()); n != 0 {
		t.Errorf("%d queries were asked", n)
	}
}

// TestNoPrometheus: a cluster without Prometheus says how to get it, one whose pods are not ready says why, and the second pod answers if the first
// does not.
func TestNoPrometheus(t *testing.T) {
	f := figurestest.Serve(t, 1)
	f.Pods = map[string]string{"prometheus-a-0": "containers with unready status: [prometheus]", "prometheus-b-0": ""}
	if got := read(t, f, figures.Ask{}); got.Source != "prometheus-b-0" {
		t.Errorf("%s answered", got.Source)
	}
	f.Change(func() {
		f.Pods["prometheus-a-0"] = ""
		f.Answer = func(w http.ResponseWriter, r *http.Request, pod string) {
			w.Header().Set("Content-Type", "application/json")
			if pod == "prometheus-a-0" {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"error trying to reach service: dial tcp 10.244.1.5:9090: connect: connection refused"}`)
				return
			}
			q := r.URL.Query()
			fmt.Fprint(w, f.Matrix(q.Get("query"), q.Get("start"), q.Get("end"), q.Get("step")))
		}
	})
	if got := read(t, f, figures.Ask{}); got.Source != "prometheus-b-0" || got.Charts[0].Problem != "" {
		t.Errorf("%+v", got)
	}
	f.Change(func() { delete(f.Pods, "prometheus-b-0") })
	_, err := figures.Of(t.Context(), f.Client, figurestest.Place, figures.Ask{}, now)
	testkit.Fails(t, err, fail.NotReady, "prometheus-a-0", "connection refused")
	f.Change(func() { f.Pods["prometheus-a-0"] = "waits\x1b[2J for a volume" })
	_, err = figures.Of(t.Context(), f.Client, figurestest.Place, figures.Ask{}, now)
	testkit.Fails(t, err, fail.NotReady, "pod prometheus-a-0", "for a volume", "kubectl describe pod")
	if strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the pod's words reach the terminal: %q", err)
	}
	f.Change(func() { f.Pods = nil })
	if got := read(t, f, figures.Ask{}); !strings.Contains(got.Missing, "spec.addons") || len(got.Charts) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestHostileAnswers: no answer from an impostor makes the figures large or sends a request elsewhere.
func TestHostileAnswers(t *testing.T) {
	elsewhere := atomic.Int64{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	series := func(n int, values string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"metric":{"node":"n%d"},"values":%s}`, i, values)
		}
		return `{"status":"success","data":{"resultType":"matrix","result":[` + b.String()[1:] + `]}}`
	}
	at := strconv.FormatInt(now.Truncate(time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		kind, body string
		code       int
		repeat     int    // how many times the body is repeated
		fails      string // words of the error
		problem    string // words of each chart's problem
		series     int    // in each chart
	}{
		"100 MB":                  {body: `{"status":"success","data":"` + strings.Repeat("x", 1<<20), repeat: 100, problem: "larger than 2048 KiB"},
		"100 MB of blanks":        {body: strings.Repeat(" ", 1<<20), repeat: 100, problem: "larger than 2048 KiB"},
		"10,000 series":           {body: series(10_000, "[["+at+`,"1"]]`), series: 500},
		"no numbers":              {body: series(3, "[["+at+`,"NaN"],[`+at+`,"+Inf"],[`+at+`,"-Inf"]]`)},
		"words":                   {body: series(1, "[["+at+`,"many"]]`), problem: "can't be read"},
		"numbers without quotes":  {body: series(1, "[["+at+`,1]]`), problem: "can't be read"},
		"too many values":         {body: series(1, "["+strings.Repeat("["+at+`,"1"],`, 1000)+"["+at+`,"1"]]`), problem: "1001 of them"},
		"other times":             {body: series(1, `[[0,"1"],[99999999999,"1"],[1e300,"1"]]`)},
		"controls in names":       {body: strings.ReplaceAll(series(9, "[["+at+`,"1"]]`), `:"n`, `:"n\u0000`), series: 9},
		"HTML":                    {kind: "text/html", body: "<html><script>alert(1)</script>\x1b[2J", fails: "does not answer as Prometheus does"},
		"a page of JSON":          {body: `[]`, fails: "does not answer as Prometheus does"},
		"an error":                {code: 422, body: `{"status":"error","errorType":"execution","error":"query processing would load too many samples\u001b[2J"}`, problem: "too many samples"},
		"a scalar":                {body: `{"status":"success","data":{"resultType":"scalar","result":[]}}`, problem: `answers with "scalar"`},
		"nothing":                 {body: `{"status":"success","data":{"resultType":"matrix","result":[]}}`},
		"a redirection":           {code: 302, kind: "text/html", body: "", fails: "does not answer as Prometheus does"},
		"a redirection, and JSON": {code: 307, body: `{}`, problem: ": "},
	} {
		t.Run(name, func(t *testing.T) {
			f := figurestest.Serve(t, 1)
			f.Pods = map[string]string{"prometheus-a-0": ""}
			f.Answer = func(w http.ResponseWriter, _ *http.Request, _ string) {
				kind, code := c.kind, c.code
				if kind == "" {
					kind = "application/json"
				}
				if code == 0 {
					code = 200
				}
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Location", other.URL+"/latest/meta-data")
				w.WriteHeader(code)
				for range max(1, c.repeat) {
					if _, err := io.WriteString(w, c.body); err != nil {
						return
					}
				}
			}
			got, err := figures.Of(t.Context(), f.Client, figurestest.Place, figures.Ask{Machine: "m1"}, now)
			if c.fails != "" {
				testkit.Fails(t, err, fail.NotReady, c.fails)
				if strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 1000 {
					t.Errorf("%q", err)
				}
				return
			}
			testkit.Must(t, err)
			for _, chart := range got.Charts {
				if !strings.Contains(chart.Problem, c.problem) || (chart.Problem == "") != (c.problem == "") || len(chart.Problem) > 1000 || strings.Contains(chart.Problem, "\x1b") || len(chart.Series) != c.series || chart.More != (c.series == 500) {
					t.Errorf("%s: %q, %d series, more %v", chart.ID, chart.Problem, len(chart.Series), chart.More)
				}
			}
			if text := testkit.Value(json.Marshal(got))(t); len(text) > 6<<20 {
				t.Errorf("%d bytes", len(text))
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went to another server", n)
	}
}

// TestPrometheusHangs: Of abandons a pod that never answers in bounded time.
func TestPrometheusHangs(t *testing.T) {
	f := figurestest.Serve(t, 1)
	f.Answer = func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := figures.Of(ctx, f.Client, figurestest.Place, figures.Ask{}, now)
	testkit.Fails(t, err, fail.Unreachable, "ask pod prometheus-a-0")
	if strings.Contains(err.Error(), "query") {
		t.Errorf("the error has the query: %v", err)
	}
}
