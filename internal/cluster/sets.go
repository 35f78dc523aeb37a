package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/siteset"
)

// planSets applies the manifests and charts of the document that are absent or not as wanted, waits for them, and removes those that left the document.
func (a *applying) planSets() error {
	for _, s := range a.o.SurplusSets {
		var heirs []string // take objects over before the others are deleted
		for key, seen := range a.o.Sets {
			if seen != nil && slices.Contains(seen.From, s.Key) {
				heirs = append(heirs, addons.SetID(key))
			}
		}
		slices.Sort(heirs)
		a.add(stage.Sets, a.RemoveSetStep(s), plan.IfPlanned(heirs...)...)
	}
	sets := siteset.Of(a.Doc)
	if len(sets) == 0 {
		return nil
	}
	rendered, err := a.RenderSets(context.Background(), nil) // for the hooks and the order; it asks nothing
	if err != nil {
		return err
	}
	before := siteset.Needs(sets, rendered)
	makers := siteset.Makers(sets, rendered, before, a.missesNamespace)
	for _, s := range sets {
		seen, r := a.o.Sets[s.Key], rendered[s.Key]
		if seen != nil {
			s.From = seen.From
		}
		var needs []plan.Need
		for _, other := range before[s.Key] {
			needs = append(needs, plan.IfPlanned(addons.SetID(other), addons.SetWorksID(other))...)
		}
		if maker := makers[s.Key]; maker != "" && !slices.Contains(before[s.Key], maker) {
			needs = append(needs, plan.IfPlanned(addons.SetID(maker))...)
		}
		a.chain(stage.Sets, a.setSteps(s, seen, r), needs...)
	}
	return nil
}

// setSteps returns the steps of one set, each after the one before it.
func (a *applying) setSteps(s *siteset.Set, seen *observe.SeenSet, r chart.Rendered) (steps []*plan.Step) {
	works, hooksLeft, install := a.SetState(s.Key)
	apply := !seen.Clean()
	renewed := apply && (seen == nil || !seen.Finding.Same)
	if known := seen != nil && (seen.Finding.Known || seen.Adopts != ""); !known && !a.SetApplied(s.Key) {
		install = true
	}
	if before := chart.Due(r.Before, install); renewed && len(before) > 0 {
		steps = append(steps, a.HooksStep(s, before, true, install))
	}
	if apply {
		steps = append(steps, a.SetStep(s, seen, install))
	}
	if apply && (seen == nil || !seen.Finding.OnlyMode()) || !works {
		steps = append(steps, a.SetWorksStep(s))
	}
	if after := chart.Due(r.After, install); (renewed || hooksLeft && !apply) && len(after) > 0 {
		steps = append(steps, a.HooksStep(s, after, false, install))
	}
	return steps
}

// missesNamespace reports whether a set is to make a namespace.
func (a *applying) missesNamespace(namespace string) bool {
	for _, s := range siteset.Of(a.Doc) {
		seen := a.o.Sets[s.Key]
		if s.Namespace == namespace && (seen == nil || slices.ContainsFunc(seen.Finding.Deltas, func(d delta.Delta) bool {
			return d.Action == "create" && d.Name == "Namespace "+namespace
		})) {
			return true
		}
	}
	return false
}

// list names a few things, and how many more there are.
func list(all []string) string {
	const most = 20
	text := ""
	for i, s := range slices.Clone(all) {
		if i == most {
			return text + ", …"
		}
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}
