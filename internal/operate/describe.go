package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Subject names what to describe.
type Subject struct {
	Name string `json:"name,omitempty" maxLength:"253" doc:"A machine, a node, or the ID of a backup; empty: the cluster"`
}

// Description is everything known about a cluster, or about one machine, node or backup of it.
type Description struct {
	Subject      string                `json:"subject,omitempty"` // empty: the cluster
	Status       *report.Status        `json:"status"`
	Machine      *report.MachineStatus `json:"machine,omitempty"`
	Provided     *provider.Machine     `json:"provided,omitempty"` // the machine as its provider sees it
	Nodes        []kube.NodeLoad       `json:"nodes,omitempty"`
	Units        *machine.Life         `json:"units,omitempty"` // of the machine
	Certificates []pki.CertInfo        `json:"certificates,omitempty"`
	Backup       *BackupShown          `json:"backup,omitempty"`
	Runs         []RunLine             `json:"runs,omitempty"`     // newest first
	Events       []kube.Event          `json:"events,omitempty"`   // oldest first
	Problems     []string              `json:"problems,omitempty"` // what could not be queried, and why
}

// RunLine summarizes a run.
type RunLine struct {
	ID      string    `json:"id"`
	Verb    string    `json:"verb"`
	By      string    `json:"by"`
	Outcome string    `json:"outcome"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Steps   int       `json:"steps"`           // number of planned steps; of a machine: its steps
	Error   string    `json:"error,omitempty"` // of the step that failed first
}

// Limits of a description.
const (
	describedEvents = 20
	describedRuns   = 5
	searchedRuns    = 100 // searched for runs that touched a machine
	describedSince  = time.Hour
)

// Describe is the view that gathers a description.
var Describe = View[Subject, Description]{Name: "describe", See: func(ctx context.Context, s *Session, in Subject) (*Description, error) {
	d := &Description{Subject: in.Name}
	if in.Name != "" && s.isBackup(ctx, in.Name, d) {
		return d, nil
	}
	var in1 *report.Insight
	var problems [3]error
	var wg sync.WaitGroup
	wg.Go(func() { in1, problems[0] = s.Cluster.Insight(ctx, time.Now().Add(-describedSince), 10*describedEvents) })
	var err error
	if d.Status, err = s.Cluster.Status(ctx); err == nil {
		d.Certificates, err = s.Cluster.Certificates(ctx)
	}
	wg.Wait()
	if err != nil {
		return nil, err
	}
	if in1 != nil {
		d.Nodes, d.Events = in1.Nodes, in1.Events
	}
	if in.Name != "" {
		if err := d.narrow(ctx, s, in.Name); err != nil {
			return nil, err
		}
		if d.Machine != nil && d.Machine.State == string(provider.Running) {
			var life machine.Life
			if life, problems[1] = s.Cluster.Units(ctx, in.Name); problems[1] == nil {
				d.Units = &life
			}
		}
	}
	d.Events = d.Events[max(0, len(d.Events)-describedEvents):]
	d.Runs, problems[2] = s.runLines(ctx, in.Name)
	for _, p := range problems {
		if p != nil {
			d.Problems = append(d.Problems, p.Error())
		}
	}
	return d, nil
}}

// isBackup reports whether the name is that of a backup, and fills in the backup.
func (s *Session) isBackup(ctx context.Context, name string, d *Description) bool {
	if strings.HasPrefix(name, s.Record.Name+"-") {
		return false // a machine's name
	}
	shown, err := BackupView.See(ctx, s, BackupID{ID: name})
	if err != nil {
		return false
	}
	d.Backup = shown
	return true
}

// narrow keeps only what concerns one machine or node. For an unknown name it returns fail.NotFound with the machines' names.
func (d *Description) narrow(ctx context.Context, s *Session, name string) error {
	var all []string
	for i := range d.Status.Machines {
		m := &d.Status.Machines[i]
		if all = append(all, m.Name); m.Name == name {
			d.Machine = m
		}
	}
	d.Nodes = slices.DeleteFunc(d.Nodes, func(n kube.NodeLoad) bool { return n.Node != name })
	if d.Machine == nil && len(d.Nodes) == 0 {
		return fail.New(fail.NotFound, "cluster %s has no machine, node or backup %q", s.Record.Name, name).Do("its machines are %s", strings.Join(all, ", "))
	}
	if provided, _, err := s.Cluster.MachineList(ctx); err == nil {
		if i := slices.IndexFunc(provided, func(m provider.Machine) bool { return m.Name == name }); i >= 0 {
			d.Provided = &provided[i]
		}
	}
	d.Certificates = slices.DeleteFunc(d.Certificates, func(c pki.CertInfo) bool { return !strings.HasPrefix(c.Name, name+"/") })
	d.Events = slices.DeleteFunc(d.Events, func(e kube.Event) bool { return e.Node != name })
	return nil
}

// runLines lists the newest runs, or the runs that touched a machine.
func (s *Session) runLines(ctx context.Context, machine string) (lines []RunLine, err error) {
	limit := describedRuns
	if machine != "" {
		limit = searchedRuns
	}
	runs, err := s.Store.Runs(ctx, s.Record.Name, limit)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if l := runLine(&runs[i], machine); l != nil && len(lines) < describedRuns {
			lines = append(lines, *l)
		}
	}
	return lines, nil
}

// runLine summarizes a run; nil if it did not touch the machine.
func runLine(r *plan.RunRecord, machine string) *RunLine {
	l := &RunLine{ID: r.ID, Verb: r.Verb, By: r.By, Outcome: string(r.Outcome), Started: r.Started, Ended: r.Ended}
	for _, st := range r.Steps {
		if machine != "" && st.Subject != machine {
			continue
		}
		l.Steps++
		if st.Err != "" {
			l.Error = cmp.Or(l.Error, st.Title+": "+st.Err)
		}
	}
	if machine != "" && l.Steps == 0 {
		return nil
	}
	return l
}

// EventsOf selects the events to list.
type EventsOf struct {
	Seconds  int    `json:"seconds,omitempty" minimum:"0" doc:"How far back to look; 0: an hour"`
	Machine  string `json:"machine,omitempty" maxLength:"253" doc:"Only what concerns this machine; empty: everything"`
	Warnings bool   `json:"warnings,omitempty" doc:"Only warnings and failures"`
}

// Happened is an event of a cluster: one of Kubernetes, or the beginning or end of a run.
type Happened struct {
	ID      string    `json:"id"` // differs for each occurrence
	At      time.Time `json:"at"`
	Source  string    `json:"source"` // "kubernetes" or "naupegos"
	Warning bool      `json:"warning"`
	Object  string    `json:"object"` // "Pod kube-system/coredns-1", or "run 20261129-…"
	Machine string    `json:"machine,omitempty"`
	Reason  string    `json:"reason"` // or the verb of a run
	Text    string    `json:"text"`
	Count   int       `json:"count"`
}

// EventList lists a cluster's events, oldest first.
type EventList struct {
	Items   []Happened `json:"items"`
	Problem string     `json:"problem,omitempty"` // why Kubernetes' events are missing
}

// mostEvents limits the length of an event list.
const mostEvents = 1000

// Events is the view of a cluster's events: Kubernetes' events and Naupegos' runs.
var Events = View[EventsOf, EventList]{Name: "events", See: func(ctx context.Context, s *Session, in EventsOf) (*EventList, error) {
	since := time.Now().Add(-cmp.Or(time.Duration(in.Seconds)*time.Second, time.Hour))
	list := &EventList{Items: []Happened{}}
	seen, err := s.Cluster.Insight(ctx, since, mostEvents)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		list.Problem = err.Error()
	} else {
		for _, e := range seen.Events {
			list.Items = append(list.Items, Happened{ID: e.ID, At: e.At, Source: "kubernetes", Warning: e.Warning, Object: e.Object, Machine: e.Node, Reason: e.Reason, Text: strings.TrimSpace(e.Text), Count: e.Count})
		}
	}
	runs, err := s.Store.Runs(ctx, s.Record.Name, searchedRuns)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		list.Items = append(list.Items, happened(&runs[i], in.Machine)...)
	}
	list.Items = slices.DeleteFunc(list.Items, func(h Happened) bool {
		return h.At.Before(since) || in.Warnings && !h.Warning || in.Machine != "" && h.Machine != in.Machine
	})
	slices.SortStableFunc(list.Items, func(a, b Happened) int { return a.At.Compare(b.At) })
	list.Items = list.Items[max(0, len(list.Items)-mostEvents):]
	return list, nil
}}

// happened returns the beginning and the end of a run. If machine is not empty, it returns nothing unless the run touched the machine.
func happened(r *plan.RunRecord, machine string) (all []Happened) {
	l := runLine(r, machine)
	if l == nil {
		return nil
	}
	h := Happened{ID: r.ID + "/begun", At: r.Started, Source: "naupegos", Object: "run " + r.ID, Machine: machine, Reason: r.Verb, Text: "begun by " + r.By, Count: 1}
	all = append(all, h)
	if r.Ended.IsZero() {
		return all
	}
	h.ID, h.At, h.Warning = r.ID+"/ended", r.Ended, r.Outcome != plan.OutcomeSucceeded
	h.Text = fmt.Sprintf("%s after %s", r.Outcome, r.Ended.Sub(r.Started).Round(100*time.Millisecond))
	if l.Error != "" {
		h.Text += ": " + l.Error
	}
	return append(all, h)
}

// UsageList lists the resource usage of a cluster's nodes.
type UsageList struct {
	Items []kube.Usage `json:"items"`
}

// Used is the view of the nodes' resource usage as measured by their kubelets.
var Used = View[Plainly, UsageList]{Name: "usage", Within: 20 * time.Second, See: func(ctx context.Context, s *Session, _ Plainly) (*UsageList, error) {
	all, err := s.Cluster.Usage(ctx)
	if all == nil {
		all = []kube.Usage{}
	}
	return &UsageList{all}, err
}}
