package cluster

import (
	"context"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/siteset"
)

// planSets applies the manifests and charts of the document that are absent or not as wanted, waits for them, and removes those that left the document.
func (a *applying) planSets() error {
	if a.o.SetsErr != nil {
		a.add(stage.Sets, a.UnseenSetsStep(a.o.SetsErr))
		return nil
	}
	before := removals(a.o.SurplusSets)
	for _, s := range a.o.SurplusSets {
		var first []string
		for key, seen := range a.o.Sets {
			// Heirs take objects over before the set's other objects are deleted, and custom resources are removed before their operator.
			if seen != nil && (slices.Contains(seen.From, s.Key) || servesAny(s, seen.Finding.Pruned)) {
				first = append(first, addons.SetID(key))
			}
		}
		slices.Sort(first)
		for _, other := range before[s.Key] {
			first = append(first, addons.RemoveSetID(other))
		}
		a.add(stage.Sets, a.RemoveSetStep(s), plan.IfPlanned(first...)...)
	}
	sets := siteset.Of(a.Doc)
	if len(sets) == 0 {
		return nil
	}
	rendered, err := a.RenderSets(context.Background(), nil) // for the hooks and the order; it asks nothing
	if err != nil {                                          // the rest of the cluster does not depend on them
		a.add(stage.Sets, a.UnseenSetsStep(err))
		return nil
	}
	needed := siteset.Needs(sets, rendered)
	makers := siteset.Makers(sets, rendered, needed, a.missesNamespace)
	for _, s := range sets {
		seen, r := a.o.Sets[s.Key], rendered[s.Key]
		if seen != nil {
			s.From, s.Moved, s.Heirs = seen.From, seen.Moved, seen.Heirs
		}
		var needs []plan.Need
		for _, other := range needed[s.Key] {
			needs = append(needs, plan.IfPlanned(addons.SetID(other), addons.SetWorksID(other))...)
		}
		if maker := makers[s.Key]; maker != "" && !slices.Contains(needed[s.Key], maker) {
			needs = append(needs, plan.IfPlanned(addons.SetID(maker))...)
		}
		a.addSet(s, a.setSteps(s, seen, r), needs)
	}
	return nil
}

// leftNotes names the fields of sets that are left to other programs.
func leftNotes(o *observe.Observed) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(o.Sets)) {
		if seen := o.Sets[key]; seen != nil && len(seen.Finding.Left) > 0 {
			out = append(out, objects.SetTitle(key)+" leaves to other programs what they changed after it: "+list(seen.Finding.Left))
		}
	}
	return out
}

// addSet adds the steps of a set. Without a pod network of ours, a set that needs no other one is applied as soon as the API answers: nodes become Ready when the
// pod network is there, which it may hold.
func (a *applying) addSet(s *siteset.Set, steps []*plan.Step, needs []plan.Need) {
	early := 0
	if a.Doc.Spec.Kubernetes.CNI == layout.CNINone && len(needs) == 0 {
		early = 1 + slices.IndexFunc(steps, func(step *plan.Step) bool { return step.ID == addons.SetID(s.Key) })
	}
	needs = a.chain(stage.Network, steps[:early], needs...)
	a.chain(stage.Sets, steps[early:], needs...)
}

// setSteps returns the steps of one set, each after the one before it.
func (a *applying) setSteps(s *siteset.Set, seen *observe.SeenSet, r chart.Rendered) (steps []*plan.Step) {
	works, hooksLeft, install := a.SetState(s.Key)
	apply := !seen.Clean()
	renewed := apply && (seen == nil || !seen.Finding.Mends())
	if known := seen != nil && (seen.Finding.Known || seen.Adopts != ""); !known && !a.SetApplied(s.Key) {
		install = true
	}
	before := chart.Due(r.Before, install)
	hooked := renewed && len(before) > 0
	if hooked {
		steps = append(steps, a.HooksStep(s, before, true, install))
	}
	if apply {
		steps = append(steps, a.SetStep(s, seen, install, hooked))
	}
	if apply && (seen == nil || !seen.Finding.OnlyMode()) || !works {
		steps = append(steps, a.SetWorksStep(s))
	}
	if after := chart.Due(r.After, install); (renewed || hooksLeft && !apply) && len(after) > 0 {
		steps = append(steps, a.HooksStep(s, after, false, install))
	}
	return steps
}

// servesAny reports whether a set serves some of the objects: it defines their kinds, or may have their operator.
func servesAny(s observe.SurplusSet, all []objects.Ref) bool {
	uses, _ := objects.Groups(all)
	return slices.ContainsFunc(uses, func(group string) bool {
		return slices.Contains(s.Defines, group) || s.Works && !slices.Contains(s.Uses, group)
	})
}

// removals returns for each departing set the sets that must be removed before it: custom resources precede the set that defines their kinds, and
// sets with workloads, because one of these may be the operator. Of two sets that use each other, the first in the list is removed first.
func removals(all []observe.SurplusSet) map[string][]string {
	out := map[string][]string{}
	reaches := func(from, to string) bool {
		seen := map[string]bool{}
		var walk func(name string) bool
		walk = func(name string) bool {
			if name == to {
				return true
			}
			if seen[name] {
				return false
			}
			seen[name] = true
			return slices.ContainsFunc(out[name], walk)
		}
		return walk(from)
	}
	order := func(serves func(s observe.SurplusSet, group string) bool) {
		for _, s := range all {
			for _, user := range all {
				if slices.ContainsFunc(user.Uses, func(group string) bool { return serves(s, group) }) && !reaches(user.Key, s.Key) && !slices.Contains(out[s.Key], user.Key) {
					out[s.Key] = append(out[s.Key], user.Key)
				}
			}
		}
	}
	order(func(s observe.SurplusSet, group string) bool { return slices.Contains(s.Defines, group) })
	order(func(s observe.SurplusSet, group string) bool { return s.Works && !slices.Contains(s.Uses, group) })
	return out
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
