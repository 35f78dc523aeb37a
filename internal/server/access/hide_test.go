package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTenantsReadNoPaths: what an operator of one cluster reads names no path of the server, in errors, jobs and texts; an operator of all clusters reads all.
func TestTenantsReadNoPaths(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	defer st.Close()
	_, missing := os.Stat(filepath.Join(st.Dir(), "nothing"))
	backup := filepath.Join(st.Dir(), "backups", "demo", "20260101T000000Z-abcd")
	record(t, st, "open "+backup+": no space left on device")
	for _, c := range []struct {
		who   Operator
		shown bool
	}{{Operator{Name: "all"}, true}, {Operator{Name: "one", Cluster: "demo"}, false}} {
		texts := map[string]string{
			"an error":  c.who.Told(fail.Wrap(fail.Invalid, missing, "read it")).Error(),
			"a place":   c.who.Told(fail.New(fail.Refused, "it is damaged").At(backup)).Error(),
			"a backup":  c.who.Hide(st, backup),
			"in a list": c.who.Hide(st, st.Dir()+"/backups"),
		}
		if !c.shown {
			j := &store.Job{Result: json.RawMessage(`{"where":"` + backup + `","error":""}`)}
			(&view{st}).strip(j)
			if texts["a job"] = string(j.Result); !json.Valid(j.Result) {
				t.Errorf("a job's result became %s", j.Result)
			}
		}
		for what, text := range recorded(t, st, c.who) {
			texts[what] = text
		}
		shown, err := Shown(c.who, st, &map[string]any{"backups": []any{map[string]any{"problem": "open " + backup + ": no space left"}}, "n": 1})
		testkit.Must(t, err)
		texts["an answer"] = fmt.Sprint(*shown)
		for what, text := range texts {
			if strings.Contains(text, st.Dir()) != c.shown {
				t.Errorf("%s to %s: %s", what, c.who.Name, text)
			}
		}
	}
}

// record makes a server record a failed run of the cluster demo with this error.
func record(t *testing.T, st store.Store, text string) {
	t.Helper()
	ctx := t.Context()
	c := testkit.Value(st.CreateCluster(ctx, store.Cluster{Name: "demo"}))(t)
	if !testkit.Value(st.Health().Take(ctx, c.ID, "s", time.Minute))(t) {
		t.Fatal("the look is another's")
	}
	problem := testkit.Value(json.Marshal(map[string]string{"problem": text}))(t)
	testkit.Must(t, st.Health().Put(ctx, "s", health.Record{ClusterID: c.ID, State: "unknown", Cause: text, Summary: problem, Report: problem}, time.Hour))
	d := testkit.Value(st.TakeDuty(ctx, "demo", "backup", time.Minute))(t)
	d.Outcome, d.Message = store.DutyFailed, text
	testkit.Must(t, st.EndDuty(ctx, d, time.Hour))
	testkit.Value(st.AddJob(ctx, store.Job{Cluster: "demo", Verb: "apply"}))(t)
	j := testkit.Value(st.ClaimJob(ctx, time.Minute))(t)
	testkit.Must(t, st.SayJob(ctx, j, []string{string(problem)}))
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{{ID: "a", Action: plan.Create, Title: "a"}}}
	journal := st.Journal(c.ID)
	run := testkit.Value(journal.Begin(ctx, p, nil))(t)
	testkit.Must(t, errors.Join(journal.Step(ctx, run, "a", plan.Retrying, time.Now(), text), journal.Step(ctx, run, "a", plan.Failed, time.Now(), text), journal.End(ctx, run, plan.OutcomeFailed, nil)))
}

// recorded returns the run as the operator sees it.
func recorded(t *testing.T, st store.Store, who Operator) map[string]string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	v := who.View(st)
	c := testkit.Value(v.Cluster(ctx, "demo"))(t)
	one := testkit.Value(v.Health().Get(ctx, c.ID))(t)
	duties, runs := testkit.Value(v.Duties(ctx, "demo"))(t), testkit.Value(v.Runs(ctx, "demo", 1))(t)
	jobs := testkit.Value(v.Jobs(ctx, "demo", 1))(t)
	lines := testkit.Value(v.JobLines(ctx, jobs[0].ID, 0, 10))(t)
	run := testkit.Value(v.Run(ctx, runs[0].ID))(t)
	if !json.Valid(one.Report) || !json.Valid([]byte(lines[0].Line)) {
		t.Errorf("no JSON any more: %s, %s", one.Report, lines[0].Line)
	}
	return map[string]string{
		"a cause": one.Cause, "a report": string(one.Report), "a summary": string(one.Summary), "a cause in the list": testkit.Value(v.Health().All(ctx))(t)[c.ID].Cause,
		"a duty": duties[0].Message, "a line": lines[0].Line, "a step": run.Steps[0].Err, "a retry": run.Steps[0].Retries[0].Err, "a step in the list": runs[0].Steps[0].Err,
	}
}
