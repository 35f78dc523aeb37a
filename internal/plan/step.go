// Package plan is the engine: typed steps in a graph, one printed plan, a bounded parallel executor with retry,
// cancellation, progress and a journal.
//
// It knows nothing of Kubernetes, machines or clouds, and could be lifted out and used elsewhere.
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
	Title   string        // what it does, for people: "boot machine demo-cp-1"
	Subject string        // the thing acted upon, for grouping: a machine's name, or "cluster"
	Reason  string        // why it is needed
	Details []string      // what exactly changes, e.g. "file /etc/haproxy/haproxy.cfg"; shown under the step
	Deltas  []delta.Delta // what changes, with its content; those whose Detail is among Details are shown in its place
	Stage   Stage         // the phase of the plan that it is in; empty where the plan has none
	Needs   []string      // IDs of steps that must have succeeded before
	Consent string        // name of the consent without which the plan is refused; empty for none
	Rolling bool          // it restarts or takes away one of several that serve, one after another
	Removes bool          // it takes its subject away for good, with what only that holds
	Apart   bool          // its failure keeps no step from starting but those that need it
	// Announces is the highest class of what later plans of the same command do, as Details tell; empty where none follow.
	Announces Disruption
	Timeout   time.Duration // bound for the step with all its retries; 0 means the plan's default
	// Run carries it out. It must be idempotent: after a crash it runs again from the start.
	// Errors of kind fail.NotReady and fail.Unreachable are retried until Timeout; all others end the step.
	Run func(ctx context.Context, p Progress) error
}

// Disruption says how much carrying something out disturbs what serves already.
type Disruption string

// The classes of disruption, the least first.
const (
	Undisturbed Disruption = "none"       // nothing that serves is restarted
	Rolling     Disruption = "rolling"    // what serves is restarted or replaced one by one; the others carry on
	Removing    Disruption = "removing"   // something is taken away for good, with what only it holds
	Disruptive  Disruption = "disruptive" // something is given up for good: it needs a named consent
	Final       Disruption = "final"      // nothing is left, no data either
)

var disruptions = []Disruption{Undisturbed, Rolling, Removing, Disruptive, Final}

// AtLeast reports whether d disturbs as much as o, or more.
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

// Disruption returns the plan's class: the highest among its steps, or Final.
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

// Progress takes what a running step has to say to whoever watches.
type Progress interface {
	// Status replaces the step's one-line status ("waiting for SSH on 10.0.0.5").
	Status(format string, args ...any)
}

// Noter is a Progress that also tells what shall not pass with the step; Execute gives steps one.
type Noter interface {
	Progress
	Note(format string, args ...any)
}

// Plan is what takes the observed to the wanted.
type Plan struct {
	Verb    string // "apply", "destroy", …
	Title   string // the verb with its arguments: "node remove demo-general-1"; empty: the verb alone
	Subject string // what the verb acts on: machines, a pool, a backup; empty: the whole cluster
	Cluster string // the cluster's name
	Final   bool   // nothing of the cluster is left afterwards
	Steps   []*Step
	// Document lists the fields in which the document differs from the one that was applied last.
	Document []delta.Delta
	// Estimate is how long the plan takes, by earlier runs of equal steps; 0: unknown.
	Estimate time.Duration
	// Warnings say what is odd about what is wanted, though it can be had: one sentence each. They keep nothing from being carried out.
	Warnings []string
	// LeftOut says what is to be done besides, and not by this plan; a few words each.
	LeftOut []string
}
