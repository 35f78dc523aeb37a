package env

import (
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
)

// CheckChanges compares a document with the one that the cluster was last brought to, and refuses, field by field (v1alpha1.Refusal), changes that a
// running cluster can't follow. Before the API's first answer everything may change.
func CheckChanges(rec *store.Cluster, doc *v1alpha1.Cluster) error {
	return checkChanges(memory.NewFacts(rec, nil), rec, doc)
}

// CheckChanges calls the function of that name with this cluster's document.
func (c *Env) CheckChanges() error { return checkChanges(c.Facts, c.Record, c.Doc) }

func checkChanges(f *memory.Facts, rec *store.Cluster, doc *v1alpha1.Cluster) error {
	was := f.Get(memory.Converged)
	if was == "" {
		was = string(rec.Document) // it was up before this was remembered, or never came to its end
	}
	if was == "" || !f.Bootstrapped() {
		return nil
	}
	before, err := validation.Parse("the document that "+rec.Name+" was brought to", []byte(was))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "compare the document with the last one of cluster %s", rec.Name)
	}
	refused := v1alpha1.Refused(v1alpha1.Changes(before, doc))
	if no := releaseRefused(f, before.Spec.Kubernetes.Version, doc.Spec.Kubernetes.Version); no != nil {
		refused = append(v1alpha1.Refusal{*no}, refused...)
	}
	refused = append(refused, poolsRefused(f, before, doc)...)
	if len(refused) > 0 {
		return refused
	}
	return nil
}

// releaseRefused returns why a running cluster can't change from one release to another, or nil.
func releaseRefused(f *memory.Facts, was, now string) *v1alpha1.FieldError {
	told := ToldBy(f, was)
	_, err := hops.Path(told, hops.Goal{Version: now, Finish: true})
	if run, e := hops.Parse(f.Get(memory.ReleasesRun)); err == nil && e == nil {
		_, err = hops.Turn(told, run, hops.Goal{Version: now})
	}
	if err == nil {
		return nil
	}
	return &v1alpha1.FieldError{
		Field: "spec.kubernetes.version", Problem: fmt.Sprintf("can't change on a living cluster from %s to %s", told.Machines, now), Hint: "set it back; " + err.Error(),
	}
}

// poolsRefused returns the pools of a running cluster that would get an older minor release than their machines run.
func poolsRefused(f *memory.Facts, was, now *v1alpha1.Cluster) (refused v1alpha1.Refusal) {
	told := ToldBy(f, was.Spec.Kubernetes.Version)
	for i, p := range now.Spec.Workers {
		j := slices.IndexFunc(was.Spec.Workers, func(o v1alpha1.Pool) bool { return o.Name == p.Name })
		if j < 0 {
			continue
		}
		runs, to := hops.OfPool(told, was.Spec.Workers[j].Version), hops.OfPool(told, p.Version)
		if release.MinorOf(runs) != release.MinorOf(to) && release.Compare(to, runs) < 0 {
			refused = append(refused, v1alpha1.FieldError{
				Field: fmt.Sprintf("spec.workers[%d].version", i), Problem: fmt.Sprintf("can't change on a living cluster from %s to %s", runs, to),
				Hint: "set it back; a kubelet does not go back a minor: add a pool that begins with it",
			})
		}
	}
	return refused
}
