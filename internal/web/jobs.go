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
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// planning bounds how long a plan may take.
const planning = 5 * time.Minute

// planData is a plan that somebody is asked to agree to.
type planData struct {
	Cluster, Digest, Summary, Later string
	Fields                          []field // of what was asked
	Changes                         bool
	Consents                        []string
	Notes, Warnings                 []string     // below the summary
	Diff                            []delta.Hunk // of the document
	Groups                          []show.Group
	Graph                           *topology // nil: see graphOf
	Unready                         string    // why it can't be carried out now; empty: it can
}

// planPage plans what the form asks for, and asks whether that is to be done.
func (p *Pages) planPage(r *http.Request, _ *access.Operator) (*view, error) {
	asked, err := askedOf(r)
	if err != nil {
		return nil, err
	}
	if err := confirmed(r, asked); err != nil {
		return nil, err
	}
	return p.plan(r, r.PathValue("name"), asked)
}

// confirmed refuses to destroy a cluster whose name was not typed.
func confirmed(r *http.Request, a operate.Asked) error {
	if a.Verb == operate.Destroy && strings.TrimSpace(r.PostFormValue("confirm")) != a.Cluster {
		return fail.New(fail.Invalid, "the name of the cluster was not typed").At(a.Cluster).Do("type %s to destroy it", a.Cluster)
	}
	return nil
}

// plan plans what is asked for.
func (p *Pages) plan(r *http.Request, name string, asked operate.Asked) (*view, error) {
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
	b, err := operate.Begin(ctx, st, asked, p.c.Options(asked, work.Need{Prepare: true, Say: &bytes.Buffer{}}))
	if err != nil {
		return nil, err
	}
	d := planData{Cluster: name, Fields: fieldsOf(asked), Changes: !b.First.Plan.Empty(), Consents: b.First.Plan.MissingConsents(nil), Later: b.Later(),
		Graph: graphOf(planned(b.First.Plan))}
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
	if document != "" { // else it is the stored one
		hunks, _ := delta.Hunks(string(was.Document), document)
		d.Diff = show.SafeHunks(hunks)
	}
	return &view{name: "plan", Title: "Plan of " + name, Command: commandsOf(name, asked), Data: d}, nil
}

// jobActions are what operators do with clusters: as jobs of the server.
func (p *Pages) jobActions() map[string]action {
	about := server.Found("job", "id", p.clusterOfJob)
	stop := func(what string, how store.Stop) action {
		return action{what: what, need: server.Operate, scope: about, do: func(r *http.Request, _ *access.Operator) (string, string, error) {
			id := r.PathValue("id")
			return id, "/ui/jobs/" + id, p.c.Board.Stop(r.Context(), id, how)
		}}
	}
	return map[string]action{
		"/ui/clusters/{name}/apply": {what: "agreed to", need: server.Operate, scope: server.Cluster("name"), do: func(r *http.Request, who *access.Operator) (string, string, error) {
			asked, err := askedOf(r)
			if err == nil {
				err = confirmed(r, asked)
			}
			if err == nil && asked.Verb == operate.Destroy {
				err = p.sensitive(r, who, "agreed to destroy", asked.Cluster)
			}
			if err != nil {
				return "", "", err
			}
			j, err := p.c.Board.Add(r.Context(), who.Name, r.PathValue("name"), work.Order{Asked: asked, Digest: r.PostFormValue("digest"), Consents: r.PostForm["consent"]})
			if err != nil {
				return "", "", err
			}
			return j.Title + ", job " + j.ID, "/ui/jobs/" + j.ID, nil
		}},
		"/ui/clusters/{name}/look": hurryAction(p),
		"/ui/jobs/{id}/stop":       stop("stopped a job", store.StopSoft),
		"/ui/jobs/{id}/kill":       stop("stopped a job at once", store.StopHard),
	}
}

// jobData is what a job's page shows.
type jobData struct {
	Job     *store.Job
	Result  work.Result
	Run     string        // of the journal, once there is one
	Done    int           // steps of it that have ended
	Picture template.HTML `json:"-"` // of it
	Graph   *topology     `json:"-"` // of it; nil: see graphOf
	Lines   []string
	Pauses  string // the machine after which the run pauses, or has; empty: it does not
	Again   *again // plans what is left; nil: nothing is, or it can't be planned here, or not by whoever looks
}

// mostLines is how many of the last lines that a job told its page shows.
const mostLines = 200

// jobPage shows a job, live until it ends.
func (p *Pages) jobPage(r *http.Request, who *access.Operator) (*view, error) {
	j, err := p.c.Store.Job(r.Context(), r.PathValue("id"))
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
			return nil, fail.Wrap(fail.Internal, err, "read what came of the job")
		}
	}
	lines, err := p.c.Store.JobLines(r.Context(), j.ID, 0, 100000)
	if err != nil {
		return nil, err
	}
	d.Lines = tell(lines)
	runs, err := p.c.Store.Runs(r.Context(), j.Cluster, recent)
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

// left is the button by which what a job has left is planned.
func left(j *store.Job, o work.Order, d *jobData, paused *plan.RunRecord) *again {
	switch {
	case d.Result.Paused && paused != nil && paused.ID == d.Run:
		return goOn(j.Cluster)
	case d.Result.Kind == "" || !asksHere(o.Asked):
		return nil
	}
	return &again{j.Cluster, "Plan what is left", fieldsOf(o.Asked)}
}

// told is what a line says that a job told, for people, when, and of which step; nothing where its page shows that otherwise.
func told(line string) (when, step, text string) {
	var l struct {
		Event, Step, State, Status, Title, Text, Message, Error, Outcome string
		Time                                                             time.Time
		Attempt                                                          int
		Seconds                                                          *float64
	}
	if json.Unmarshal([]byte(line), &l) != nil {
		return "", "", line
	}
	if l.Event == "plan" || l.Event == "steps" { // they are drawn
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
			parts = append(parts, s)
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

// tell are the last lines that a job told, the newest first. What a step says again is there once: it only says that it still runs.
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
