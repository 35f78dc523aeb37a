package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// planning is the time limit of a plan.
const planning = 5 * time.Minute

// planData is a plan that the operator is asked to confirm.
type planData struct {
	Cluster, Digest, Summary, Later string
	Fields                          []field // of the request
	Changes                         bool
	Consents                        []string
	Notes, Warnings                 []string     // below the summary
	Diff                            []delta.Hunk // of the document
	Groups                          []show.Group
	Graph                           *topology      // nil: see graphOf
	Unready                         string         // why it can't be carried out now; empty: it can
	Edit                            editing        // what was asked for
	Review                          *follow.Review // that the plan is of; nil: of none
}

// planPage makes a plan of the form's request, and asks for confirmation.
func (p *Pages) planPage(r *http.Request, who *access.Operator) (*view, error) {
	if id := r.PostFormValue("review"); id != "" {
		return planReview(p, r, who, id)
	}
	asked, err := askedOf(r)
	if err != nil {
		return nil, err
	}
	if err := confirmed(r, asked); err != nil {
		return nil, err
	}
	return p.plan(r, who, r.PathValue("name"), asked)
}

// confirmed refuses to destroy a cluster if its name was not typed.
func confirmed(r *http.Request, a operate.Asked) error {
	if a.Verb == operate.Destroy && strings.TrimSpace(r.PostFormValue("confirm")) != a.Cluster {
		return fail.New(fail.Invalid, "the name of the cluster was not typed").At(a.Cluster).Do("type %s to destroy it", a.Cluster)
	}
	return nil
}

// plan makes a plan of a request.
func (p *Pages) plan(r *http.Request, who *access.Operator, name string, asked operate.Asked) (*view, error) {
	ctx := r.Context()
	was, err := p.c.Store.Cluster(ctx, name)
	if fail.KindOf(err) == fail.NotFound && asked.Makes() {
		was, err = &store.Cluster{}, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := p.c.Open(ctx)
	if err != nil {
		return nil, err
	}
	b, err := operate.Begin(ctx, st, asked, p.c.Options(asked, work.Need{Prepare: true, Build: who.MayBuild(), Say: &bytes.Buffer{}}))
	if err != nil {
		return nil, err
	}
	d := planData{Cluster: name, Fields: fieldsOf(asked), Changes: !b.First.Plan.Empty(), Consents: b.First.Plan.MissingConsents(nil), Later: b.Later(),
		Graph: graphOf(planned(b.First.Plan)), Edit: editing{name, asked.Document}}
	if asked.Verb == operate.Destroy {
		d.Fields = append(d.Fields, field{"confirm", name})
	}
	document := asked.Document
	if e := b.Resolved().Edited; e != nil {
		document = e.Document
	}
	if err := cmp.Or(b.Closed, b.First.Unready); err != nil {
		d.Unready = err.Error()
	}
	d.Digest, err = b.Digest()
	if err := b.CloseWith(err); err != nil {
		return nil, err
	}
	first := b.First.Plan
	d.Summary, d.Notes, d.Warnings, d.Groups = show.Summary(first), show.Notes(first), first.Warnings, show.Groups(first)
	if document != "" { // otherwise the plan uses the stored document
		hunks, _ := delta.Hunks(string(was.Document), document)
		d.Diff = show.SafeHunks(hunks)
	}
	return &view{name: "plan", Title: "Plan of " + name, Command: commandsOf(name, asked), Data: d}, nil
}

// jobActions returns the actions of operators on clusters. Each adds a job of the server.
func (p *Pages) jobActions() map[string]action {
	about := server.Found("job", "id", p.clusterOfJob)
	stop := func(what string, how store.Stop) action {
		return action{what: what, need: server.Operate, scope: about, do: func(r *http.Request, _ *access.Operator) (string, string, error) {
			id := r.PathValue("id")
			if how == store.StopHard {
				if err := ticked(r, id); err != nil {
					return id, "", err
				}
			}
			return id, "/ui/jobs/" + id, p.c.Board.Stop(r.Context(), id, how)
		}}
	}
	return map[string]action{
		"/ui/clusters/{name}/apply": {what: "agreed to", need: server.Operate, scope: server.Cluster("name"), do: func(r *http.Request, who *access.Operator) (string, string, error) {
			o, err := jobOf(p, r, who)
			if err != nil {
				return "", "", err
			}
			j, err := p.c.Board.Add(r.Context(), who.Name, r.PathValue("name"), o)
			if fail.KindOf(err) == fail.Conflict { // the form was sent twice
				if same, order := openJob(p, r, r.PathValue("name")); same != nil && same.Who == who.Name && o.Digest != "" && order.Digest == o.Digest {
					j, err = same, nil
				}
			}
			if err != nil {
				return "", "", err
			}
			return j.Title + ", job " + j.ID, "/ui/jobs/" + j.ID, nil
		}, failed: notCarriedOut(p)},
		"/ui/clusters/{name}/look": hurryAction(p),
		"/ui/jobs/{id}/stop":       stop("stopped a job", store.StopSoft),
		"/ui/jobs/{id}/kill":       stop("stopped a job at once", store.StopHard),
	}
}

// jobData is the data of a job's page.
type jobData struct {
	Job     *store.Job
	Result  work.Result
	Run     string        // ID in the journal; empty until the run begins
	Done    int           // number of ended steps
	Picture template.HTML `json:"-"` // of the run
	Graph   *topology     `json:"-"` // of the run; nil: see graphOf
	Lines   []string
	Pauses  string // machine after which the run pauses, or has paused; empty: none
	Again   *again // plans the rest; nil: nothing is left, these pages can't plan it, or the reader may not
}

// mostLines is the number of a job's last lines that its page shows.
const mostLines = 200

// jobPage shows a job, live until it ends.
func (p *Pages) jobPage(r *http.Request, who *access.Operator) (*view, error) {
	j, err := who.View(p.c.Store).Job(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	d := jobData{Job: j}
	var order work.Order
	if err := json.Unmarshal(j.Request, &order); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the job")
	}
	if j.State == store.JobEnded {
		if err := json.Unmarshal(j.Result, &d.Result); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the outcome of the job")
		}
	}
	lines, err := who.View(p.c.Store).JobLines(r.Context(), j.ID, 0, 100000)
	if err != nil {
		return nil, err
	}
	d.Lines = tell(lines)
	runs, err := who.View(p.c.Store).Runs(r.Context(), j.Cluster, recent)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(runs, func(run plan.RunRecord) bool { return run.Meta["job"] == j.ID }); i >= 0 {
		d.Run, d.Done, d.Graph, d.Pauses = runs[i].ID, done(runs[i]), graphOf(runs[i]), operate.PausedAfter(&runs[i])
		if d.Picture, err = picture(runs[i]); err != nil {
			return nil, err
		}
	}
	live := ""
	if j.State != store.JobEnded {
		live = liveOf(r)
	} else if who.May(server.Operate, j.Cluster) == nil {
		d.Again = left(j, order, &d, pauseOf(runs))
	}
	command := "naupegos history " + quote(j.Cluster)
	if asksHere(order.Asked) {
		command = commandsOf(j.Cluster, order.Asked) + "\n" + command
	}
	return &view{name: "job", Title: j.Title + " · " + j.Cluster, Command: command, Live: live, Data: d}, nil
}

// left returns the button that plans the rest of a job, or nil.
func left(j *store.Job, o work.Order, d *jobData, paused *plan.RunRecord) *again {
	switch {
	case d.Result.Paused && paused != nil && paused.ID == d.Run:
		return goOn(j.Cluster)
	case d.Result.Kind == "" || !asksHere(o.Asked):
		return nil
	}
	return &again{Cluster: j.Cluster, Text: "Plan what is left", Fields: fieldsOf(o.Asked)}
}

// told turns a line of a job's output into text for people, with its time and step. The text is empty if the page shows the line in another form.
func told(line string) (when, step, text string) {
	var l struct {
		Event, Step, State, Status, Title, Text, Message, Error, Outcome string
		Time                                                             time.Time
		Attempt                                                          int
		Seconds                                                          *float64
	}
	if json.Unmarshal([]byte(line), &l) != nil {
		return "", "", words.Line(line)
	}
	if l.Event == "plan" || l.Event == "steps" { // the page draws them
		return "", "", ""
	}
	if !l.Time.IsZero() {
		when = l.Time.UTC().Format(time.TimeOnly) + "  "
	}
	var parts []string
	if l.Event != "step" {
		parts = append(parts, l.Event)
	}
	for _, s := range []string{l.Step, l.State, l.Outcome, l.Title, l.Text, l.Message, l.Status, l.Error} {
		if s != "" {
			parts = append(parts, words.Line(s))
		}
	}
	if l.Attempt > 1 {
		parts = append(parts, "attempt "+strconv.Itoa(l.Attempt))
	}
	if l.Seconds != nil {
		parts = append(parts, "after "+words.Duration(time.Duration(*l.Seconds*float64(time.Second))))
	}
	return when, l.Step, strings.Join(parts, "  ")
}

// tell returns the last lines of a job, the newest first. It omits a step's repeated lines, which only say that the step still runs.
func tell(lines []store.JobLine) (all []string) {
	before := map[string]string{}
	for _, l := range lines {
		when, step, text := told(l.Line)
		if text == "" || step != "" && before[step] == text {
			continue
		}
		all, before[step] = append(all, when+text), text
	}
	all = all[max(0, len(all)-mostLines):]
	slices.Reverse(all)
	return all
}
