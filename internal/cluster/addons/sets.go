package addons

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/siteset"
)

// ConsentDefinitions is the consent to remove a definition while objects of other owners use it.
const ConsentDefinitions = "definitions"

const (
	setPrefix       = "set/"
	beforePrefix    = "hooks-before/"
	afterPrefix     = "hooks-after/"
	removeSetPrefix = "remove-set/"
)

// SetID is the ID of the step that applies a set, and SetWorksID that of the step that waits for it.
func SetID(key string) string { return setPrefix + key }

// SetWorksID is the ID of the step that waits for a set's workloads.
func SetWorksID(key string) string { return worksPrefix + key }

// RemoveSetID is the ID of the step that removes a set.
func RemoveSetID(key string) string { return removeSetPrefix + key }

// HooksID is the ID of the step that runs a chart's hooks.
func HooksID(key string, before bool) string {
	if before {
		return beforePrefix + key
	}
	return afterPrefix + key
}

// The states of a set after it was applied (memory.AddonWorks).
const (
	setMended     = "mended"     // differences were mended: no hooks follow
	setInstalling = "installing" // it was applied for the first time
	setChanging   = "changing"   // it was applied again
	setInstalled  = "installed"  // its workloads are ready: the hooks of its installation follow
	setReady      = "ready"      // its workloads are ready: the hooks of its change follow
	setDone       = "true"
)

// SetStep applies a set of the document. hooked: hooks run before it, and may prepare what the API refuses now.
func (c *Addons) SetStep(s *siteset.Set, seen *observe.SeenSet, install, hooked bool) *plan.Step {
	step := &plan.Step{
		ID: SetID(s.Key), Action: plan.Create, Subject: "cluster", Title: "apply " + s.Title, Reason: "the document lists it", Apart: true, Timeout: s.Timeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			client, rendered, err := c.renderedSet(ctx, s)
			if err != nil {
				return err
			}
			all, options, err := foreseen(ctx, client.Applier, s, rendered)
			if err != nil {
				return err
			}
			state := setChanging
			switch {
			case install:
				state = setInstalling
			case seen != nil && seen.Finding.Mends():
				state = setMended
			}
			if err := c.Facts.SetOf(ctx, memory.AddonWorks, s.Key, state); err != nil {
				return err
			}
			p.Status("applying %d objects", len(all))
			_, err = client.ApplyObjects(ctx, all, options)
			return err
		},
	}
	if seen == nil {
		return step
	}
	if seen.Finding.OnlyMode() {
		return c.modeStep(s, step)
	}
	step.Deltas = seen.Finding.Deltas
	if seen.Finding.Known {
		step.Action, step.Reason = plan.Change, "it is not as the document says"
	}
	if seen.Finding.Hooked {
		step.Reason = "its hooks have changed"
	}
	if seen.Adopts != "" {
		step.Reason = fmt.Sprintf("it takes over the Helm release %s; its Secret %s stays: delete it, because helm uninstall would remove the objects", s.Helm, seen.Adopts)
	}
	if seen.Adopts != "" {
		step.Details = append(step.Details, "fields that Helm set and the chart lacks go, without a line above")
	}
	outlook := "will fail: "
	if hooked {
		outlook = "fails unless its hooks change this: "
	}
	for _, why := range seen.Finding.Refused {
		step.Details = append(step.Details, outlook+why)
	}
	for _, object := range seen.LookedUp {
		step.Details = append(step.Details, "its templates look up "+object+", and find nothing: charts are rendered without access to the cluster")
	}
	for _, hook := range seen.Unrun {
		step.Details = append(step.Details, "its hook "+hook+" is not run")
	}
	for _, lock := range seen.Locks {
		step.Details = append(step.Details, "its "+lock+": exclude kube-system by its namespaceSelector, or set failurePolicy: Ignore")
	}
	for _, pods := range seen.Barred {
		step.Details = append(step.Details, "will not have its pods: "+pods)
	}
	GiveUp(step, seen.Volumes, seen.Defined)
	return step
}

// placed returns the objects of a set in their namespaces, and the options by which they are applied.
func placed(ctx context.Context, c *objects.Applier, s *siteset.Set, r chart.Rendered) ([]*unstructured.Unstructured, objects.Options, error) {
	o, err := s.OptionsOf(r)
	if err != nil {
		return nil, o, err
	}
	all, err := c.Place(ctx, r.Objects, s.Namespace, s.Key, s.From...)
	return all, o, err
}

// foreseen returns the objects and options of a set, and fails if the API server will not take an object or it belongs to something else: a set is begun
// only if it can be finished.
func foreseen(ctx context.Context, c *objects.Applier, s *siteset.Set, r chart.Rendered) ([]*unstructured.Unstructured, objects.Options, error) {
	all, o, err := placed(ctx, c, s, r)
	if err != nil {
		return nil, o, err
	}
	return all, o, c.Foresee(ctx, all, o)
}

// unowned fails if an object of a set belongs to something else: its hooks run only if the set may be applied after them.
func unowned(ctx context.Context, c *objects.Applier, s *siteset.Set, r chart.Rendered) error {
	all, o, err := placed(ctx, c, s, r)
	if err != nil {
		return err
	}
	return c.Unowned(ctx, all, o)
}

// modeStep makes the step record the set's mode, which alone has changed.
func (c *Addons) modeStep(s *siteset.Set, step *plan.Step) *plan.Step {
	step.Action, step.Title, step.Reason = plan.Change, "record the mode of "+s.Title, "the document has another mode"
	step.Details = []string{"its objects are kept as the document says, and deleted with it"}
	if s.Once {
		step.Details = []string{"its objects are left alone, and stay without it"}
	}
	step.Run = func(ctx context.Context, _ plan.Progress) error {
		client, err := c.Kube(ctx)
		if err != nil {
			return err
		}
		return client.Remember(ctx, s.Options())
	}
	return step
}

// GiveUp asks for consent to lose volumes and definitions with a step.
func GiveUp(step *plan.Step, volumes, defined []string) {
	for _, d := range defined {
		step.Consent = ConsentDefinitions
		step.Details = append(step.Details, d+" is deleted, and these objects with it")
	}
	for _, v := range volumes { // the stronger consent counts if both are lost; the details name all
		step.Consent = ConsentVolumes
		step.Details = append(step.Details, v+" is deleted with its data")
	}
}

// renderedSet renders a set for the current state of the cluster.
func (c *Addons) renderedSet(ctx context.Context, s *siteset.Set) (*kube.Client, chart.Rendered, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, chart.Rendered{}, err
	}
	all, err := c.RenderSets(ctx, client)
	return client, all[s.Key], err
}

// SetWorksStep waits until the workloads of a set are ready.
func (c *Addons) SetWorksStep(s *siteset.Set) *plan.Step {
	return &plan.Step{
		ID: SetWorksID(s.Key), Action: plan.Wait, Subject: "cluster", Title: "wait until " + s.Title + " is ready", Reason: "its workloads should run", Apart: true, Timeout: s.Timeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			client, rendered, err := c.renderedSet(ctx, s)
			if err != nil {
				return err
			}
			all, _, err := placed(ctx, client.Applier, s, rendered)
			if err != nil {
				return err
			}
			for _, u := range all {
				if !kube.Waitable(u.GetAPIVersion(), u.GetKind()) {
					continue
				}
				p.Status("waiting for %s", u.GetName())
				if err := kube.WaitObject(ctx, client, u); err != nil {
					return err
				}
			}
			state := setDone
			switch c.Facts.Of(memory.AddonWorks, s.Key) {
			case setInstalling, setInstalled:
				if len(chart.Due(rendered.After, true)) > 0 {
					state = setInstalled
				}
			case setChanging, setReady:
				if len(chart.Due(rendered.After, false)) > 0 {
					state = setReady
				}
			}
			return c.Facts.SetOf(ctx, memory.AddonWorks, s.Key, state)
		},
	}
}

// HooksStep runs the hooks of a chart that come before its objects, or after them, with its installation or with a change.
func (c *Addons) HooksStep(s *siteset.Set, hooks []chart.Hook, before, install bool) *plan.Step {
	when := "after"
	if before {
		when = "before"
	}
	done := map[string]bool{} // Jobs and Pods of earlier attempts; true: ended
	step := &plan.Step{
		ID: HooksID(s.Key, before), Action: plan.Create, Subject: "cluster", Title: "run the hooks of " + s.Title + " that come " + when + " it", Reason: "the chart has them", Apart: true,
		Timeout: s.Timeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			client, rendered, err := c.renderedSet(ctx, s)
			if err != nil {
				return err
			}
			now := rendered.After
			if before {
				now = rendered.Before
				if err := unowned(ctx, client.Applier, s, rendered); err != nil {
					return err
				}
			}
			if err := c.runHooks(ctx, client, s, chart.Due(now, install), done, p); err != nil || before {
				return err
			}
			return c.Facts.SetOf(ctx, memory.AddonWorks, s.Key, setDone)
		},
	}
	for _, h := range hooks {
		step.Details = append(step.Details, "run "+h.Object.GetKind()+" "+h.Object.GetName())
	}
	return step
}

// runHooks makes one hook after another and waits for the Jobs and Pods among them. It deletes what an earlier run left, and hooks that ask for it. Jobs and
// Pods of an earlier attempt, in done, do not run again.
func (c *Addons) runHooks(ctx context.Context, client *kube.Client, s *siteset.Set, hooks []chart.Hook, done map[string]bool, p plan.Progress) error {
	var made []chart.Hook
	for _, h := range hooks {
		placed, err := client.Place(ctx, one(h), s.Namespace, s.Key, s.From...)
		if err != nil {
			return err
		}
		for _, u := range placed {
			if u.GetKind() == "Job" || u.GetKind() == "Pod" {
				p.Status("running %s %s", u.GetKind(), u.GetName())
				run := hookRun{
					exists: func() (bool, error) { return client.Exists(ctx, u) }, replace: func() error { return client.Replace(ctx, u) },
					wait: func() error { return kube.WaitObject(ctx, client, u) }, vanishes: objects.Vanishes(u),
				}
				if err := run.once(objects.RefOf(u).Identity(), done); err != nil {
					return fail.Wrap(fail.KindOf(err), err, "run the hook %s of %s", u.GetName(), s.Title)
				}
				continue
			}
			if _, err := client.ApplyHook(ctx, u, s.Options()); err != nil {
				return err
			}
		}
		made = append(made, h)
	}
	for _, h := range made {
		if h.Keep {
			continue
		}
		placed, err := client.Place(ctx, one(h), s.Namespace, s.Key, s.From...)
		if err != nil {
			return err
		}
		for _, u := range placed {
			if u.GetKind() != "Namespace" || h.Object.GetKind() == "Namespace" {
				if err := client.Remove(ctx, u); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// hookRun is the run of a Job or Pod among hooks.
type hookRun struct {
	exists        func() (bool, error)
	replace, wait func() error
	vanishes      bool // it is deleted some time after its end
}

// once runs the hook unless an earlier attempt has, and waits for its end. A hook that was deleted before its end runs again.
func (h hookRun) once(id string, done map[string]bool) error {
	ended, made := done[id]
	if ended {
		return nil
	}
	if made {
		exists, err := h.exists()
		if err != nil {
			return err
		}
		if !exists && h.vanishes {
			done[id] = true
			return nil
		}
		made = exists
	}
	if !made {
		if err := h.replace(); err != nil {
			return err
		}
		done[id] = false
	}
	if err := h.wait(); err != nil {
		return err
	}
	done[id] = true
	return nil
}

// UnseenSets is the ID of the step that stands for sets that could not be compared with the cluster.
const UnseenSets = setPrefix + "unseen"

// UnseenSetsStep fails with the reason for which the sets of the document could not be compared with the cluster. The steps for machines do not depend on it.
func (c *Addons) UnseenSetsStep(why error) *plan.Step {
	return &plan.Step{
		ID: UnseenSets, Action: plan.Wait, Subject: "cluster", Title: "compare the manifests and charts with the cluster", Reason: "this failed while the plan was made", Apart: true,
		Details: []string{"will fail: " + why.Error()},
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if _, err := c.RenderSets(ctx, client); err != nil {
				return err
			}
			return fail.Wrap(fail.Conflict, why, "compare the manifests and charts with the cluster").Do("apply again")
		},
	}
}

// RemoveSetStep removes a set that the document no longer lists.
func (c *Addons) RemoveSetStep(s observe.SurplusSet) *plan.Step {
	title := objects.SetTitle(s.Key)
	step := &plan.Step{
		ID: removeSetPrefix + s.Key, Action: plan.Destroy, Subject: "cluster", Title: "remove " + title, Reason: "the document no longer lists it", Removes: true, Apart: true,
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if s.Once {
				err = client.Forget(ctx, s.Key)
			} else {
				err = client.Delete(ctx, nil, kube.ApplyOptions{Addon: s.Key, Shared: true})
			}
			if err != nil {
				return err
			}
			return c.Facts.SetOf(ctx, memory.AddonWorks, s.Key, "")
		},
	}
	if s.Once {
		step.Action, step.Removes, step.Title = plan.Change, false, "forget "+title
		step.Details = []string{"it was applied once: its objects stay"}
		return step
	}
	for _, name := range s.Objects {
		step.Details = append(step.Details, "delete "+name)
	}
	for _, name := range s.Handed {
		step.Details = append(step.Details, name+" moves to another set")
	}
	for _, name := range s.Stays {
		step.Details = append(step.Details, "keep "+name+": its helm.sh/resource-policy is keep, or the cluster needs it")
	}
	for _, hook := range s.Unrun {
		step.Details = append(step.Details, "its hook "+hook+" is not run: if the chart needs it, run it before")
	}
	GiveUp(step, s.Volumes, s.Defined)
	return step
}

// OfSet reports whether a step's ID is that of a step of the document's manifests and charts.
func OfSet(id string) bool {
	for _, prefix := range []string{setPrefix, beforePrefix, afterPrefix, removeSetPrefix} {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return false
}

// one returns the object of a hook as a list.
func one(h chart.Hook) []*unstructured.Unstructured { return []*unstructured.Unstructured{h.Object} }

// SetState reports whether a set's workloads were ready since it was applied, whether hooks still have to run, and whether these belong to its installation.
func (c *Addons) SetState(key string) (works, hooksLeft, install bool) {
	switch c.Facts.Of(memory.AddonWorks, key) {
	case setDone:
		return true, false, false
	case setReady:
		return true, true, false
	case setInstalled:
		return true, true, true
	case setInstalling:
		return false, true, true
	case setChanging:
		return false, true, false
	}
	return false, false, false // mended, or applied by another store: its hooks have run
}

// SetApplied reports whether this store has applied a set.
func (c *Addons) SetApplied(key string) bool { return c.Facts.Of(memory.AddonWorks, key) != "" }
