package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/siteset"
)

// planSets applies the manifests and charts of the document that are absent or not as wanted, waits for them, and removes those that left the document.
func (a *applying) planSets() error {
	for _, s := range a.o.SurplusSets {
		a.add(stage.Sets, a.RemoveSetStep(s))
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
	for _, s := range sets {
		seen, r := a.o.Sets[s.Key], rendered[s.Key]
		var needs []plan.Need
		for _, other := range before[s.Key] {
			needs = append(needs, plan.IfPlanned(addons.SetID(other), addons.SetWorksID(other))...)
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

// setImages warns of images that machines pull from registries, for the bundle lacks them.
func setImages(c *Cluster) []string {
	rendered, err := c.RenderSets(context.Background(), nil)
	if err != nil || len(rendered) == 0 {
		return nil
	}
	var out []string
	for _, s := range siteset.Of(c.Doc) {
		var pulled []string
		for _, ref := range siteset.Images(rendered[s.Key]) {
			if !bundled(c, ref) {
				pulled = append(pulled, ref)
			}
		}
		if len(pulled) > 0 {
			out = append(out, s.Title+": machines pull images that are not in the bundle: "+list(pulled))
		}
	}
	return out
}

// bundled reports whether the bundle brings an image to the machines.
func bundled(c *Cluster, ref string) bool {
	if c.Current == nil {
		return false
	}
	for _, i := range c.Current.Manifest.Images {
		if i.Ref == ref {
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
