package cluster

import (
	"context"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// CheckChanges refuses, field by field (v1alpha1.Refusal), what a cluster that is up can't follow: the document is compared with the
// one that the cluster was last brought to. Before the API has answered for the first time everything may change.
func CheckChanges(rec *store.Cluster, doc *v1alpha1.Cluster) error {
	return checkChanges(memory.NewFacts(rec, nil), rec, doc)
}

func checkChanges(f *memory.Facts, rec *store.Cluster, doc *v1alpha1.Cluster) error {
	was := f.Get(memory.Converged)
	if was == "" {
		was = string(rec.Document) // it was up before this was remembered, or never came to its end
	}
	if was == "" || !f.Bootstrapped() {
		return nil
	}
	before, err := v1alpha1.Parse("the document that "+rec.Name+" was brought to", []byte(was))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "compare the document with what cluster %s was last brought to", rec.Name)
	}
	if refused := v1alpha1.Refused(v1alpha1.Changes(before, doc)); len(refused) > 0 {
		return refused
	}
	return nil
}

// Converged remembers that the cluster is as its document says, defaults and all: another default of a later naupegos is a change then.
// And it remembers the bundle.
func (c *Cluster) Converged(ctx context.Context) error {
	text, err := c.doc.Marshal()
	if err != nil {
		return err
	}
	if err := c.rememberBundle(ctx); err != nil {
		return err
	}
	if err := c.facts.Set(ctx, memory.Converged, string(text)); err != nil {
		return err
	}
	return c.facts.Set(ctx, memory.Restored, "") // what came out of a backup is true again
}
