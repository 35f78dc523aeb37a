// Package plan is the engine: typed steps in a graph, one printed plan, a bounded parallel executor with retry,
// cancellation, progress and a journal.
//
// It knows nothing of Kubernetes, machines or clouds, and could be used elsewhere.
package plan

import (
	"context"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/plan/delta"
)

// Action says what a step does to its subject; it decides the mark and colour in the printed plan.
type Action string

// The actions a step can take.
const (
	Create  Action = "create"
	Change  Action = "change"
	Replace Action = "replace"
	Destroy Action = "destroy"
	Wait    Action = "wait" // changes nothing by itself: a condition that must hold before dependents run
)

// Step is one idempotent action on one thing.
type Step struct {
	ID      string        // unique in the plan, path-like: "machine/demo-cp-1"
	Action  Action        //
	Title   string        // for people: "boot machine demo-cp-1"
	Subject string        // the thing acted upon, for grouping: a machine's name, or "cluster"
	Reason  string        // why it is needed
	Details []string      // what exactly changes, e.g. "file /etc/haproxy/haproxy.cfg"; shown under the step
	Deltas  []delta.Delta // the changes with their content; a delta whose Detail is among Details is shown in that detail's place
	Stage   Stage         // the phase of the plan that it belongs to; empty if the plan has none
	Needs   []string      // IDs of steps that must have succeeded before
	Consent string        // name of the consent without which the plan is refused; empty: none
	Rolling bool          // it restarts or removes one of several serving instances, one after another
	Removes bool          // it removes its subject for good, with everything that only the subject holds
	Apart   bool          // its failure holds up only the steps that need it
	// Announces is the highest class of later plans of the same command, which Details describe; empty if no plans follow.
	Announces Disruption
	Timeout   time.Duration // limit for the step including retries; 0 means the plan's default
	// Run carries the step out. It must be idempotent: after a crash it runs again from the start. Errors of kind fail.NotReady and fail.Unreachable
	// are retried until Timeout; all others end the step.
	Run func(ctx context.Context, p Progress) error
}

// Disruption says how much a step or plan disturbs what already serves.
type Disruption string

// The classes of disruption, in ascending order.
const (
	Undisturbed Disruption = "none"       // nothing that serves is restarted
	Rolling     Disruption = "rolling"    // serving instances are restarted or replaced one by one; the others carry on
	Removing    Disruption = "removing"   // something is removed for good, with everything that only it holds
	Disruptive  Disruption = "disruptive" // something is given up for good; requires a named consent
	Final       Disruption = "final"      // nothing is left, not even data
)

var disruptions = []Disruption{Undisturbed, Rolling, Removing, Disruptive, Final}

// AtLeast reports whether d disturbs at least as much as o.
func (d Disruption) AtLeast(o Disruption) bool {
	return slices.Index(disruptions, d) >= slices.Index(disruptions, o)
}

// Disruption returns the step's class.
func (s *Step) Disruption() Disruption {
	switch {
	case s.Consent != "":
		return Disruptive
	case s.Removes:
		return Removing
	case s.Rolling:
		return Rolling
	}
	return Undisturbed
}

// Disruption returns the plan's class: the highest class of its steps, or Final.
func (p *Plan) Disruption() Disruption {
	if p.Final && !p.Empty() {
		return Final
	}
	d := Undisturbed
	for _, s := range p.Steps {
		for _, c := range []Disruption{s.Disruption(), s.Announces} {
			if c.AtLeast(d) {
				d = c
			}
		}
	}
	return d
}

// Progress receives what a running step reports.
type Progress interface {
	// Status replaces the step's one-line status ("waiting for SSH on 10.0.0.5").
	Status(format string, args ...any)
}

// Noter is a Progress that also accepts notes, which stay visible after the step ends. Execute passes one to steps.
type Noter interface {
	Progress
	Note(format string, args ...any)
}

// Plan lists the steps from the observed to the wanted state.
type Plan struct {
	Verb    string // "apply", "destroy", …
	Title   string // the verb with its arguments: "node remove demo-general-1"; empty: the verb alone
	Subject string // what the verb acts on: machines, a pool, a backup; empty: the whole cluster
	Cluster string // the cluster's name
	Final   bool   // afterwards nothing of the cluster is left
	Steps   []*Step
	// Document lists the fields in which the document differs from the one that was applied last.
	Document []delta.Delta
	// Estimate is the expected duration, based on earlier runs of equal steps; 0: unknown.
	Estimate time.Duration
	// Warnings point out odd but possible wishes, one sentence each. They do not prevent execution.
	Warnings []string
	// LeftOut lists, in a few words each, work that this plan does not do.
	LeftOut []string
}
