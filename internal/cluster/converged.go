package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
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
	refused := v1alpha1.Refused(v1alpha1.Changes(before, doc))
	if no := releaseRefused(f, before.Spec.Kubernetes.Version, doc.Spec.Kubernetes.Version); no != nil {
		refused = append(v1alpha1.Refusal{*no}, refused...)
	}
	if len(refused) > 0 {
		return refused
	}
	return nil
}

// Converged remembers that the cluster is as its document says, defaults and all: another default of a later naupegos is a change then.
// And it remembers the bundle.
//
// Where the last plan was of a part of it and left something out, it is not: nothing is remembered.
func (c *Cluster) Converged(ctx context.Context) error {
	if c.leftOut {
		return nil
	}
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

// ConsentBundle is what the user must consent to before a cluster that is up gets its programs and images from another bundle of its
// release than the one it was built with.
const ConsentBundle = "other-bundle"

// BundleOf returns the ID of the bundle that a cluster was last brought to; empty where none is remembered.
func BundleOf(rec *store.Cluster) string {
	_, id, _ := strings.Cut(memory.NewFacts(rec, nil).Get(memory.Bundle), " ")
	return id
}

// builtWith returns the title and the ID of the bundle that the cluster was last brought to.
func (c *Cluster) builtWith() (title, id string) {
	title, id, _ = strings.Cut(c.facts.Get(memory.Bundle), " ")
	return title, id
}

// otherBundle reports whether the bundle at hand is another one of the same release than the one that the cluster, which is up, was
// built with.
func (c *Cluster) otherBundle() bool {
	title, was := c.builtWith()
	return c.bundle != nil && title == c.bundle.Manifest.Title() && was != c.bundle.ID && c.facts.Bootstrapped()
}

// newerBundle says that a newer bundle of the release is here than the one at hand; empty where there is none.
func (c *Cluster) newerBundle() string {
	if c.bundle == nil || c.newest == nil || c.newest.ID == c.bundle.ID || c.newest.Manifest.Title() != c.bundle.Manifest.Title() {
		return ""
	}
	return fmt.Sprintf("a newer bundle of Kubernetes %s is here, %s: the cluster stays with %s, which it was built with, until naupegos apply --consent %s",
		c.newest.Manifest.Title(), shortID(c.newest.ID), shortID(c.bundle.ID), ConsentBundle)
}

// bundleNote says what is to be known about the cluster's bundle; empty where all is as it was.
func (c *Cluster) bundleNote() string {
	if c.otherBundle() {
		_, was := c.builtWith()
		return fmt.Sprintf("bundle %s, which the cluster was built with, is not here; %s is: apply would take programs and images from it, with --consent %s",
			shortID(was), shortID(c.bundle.ID), ConsentBundle)
	}
	return c.newerBundle()
}

// planBundle has the user consent to another bundle, and remembers it.
func (a *applying) planBundle() {
	if !a.otherBundle() {
		return
	}
	_, was := a.builtWith()
	a.add(stagePrepare, &plan.Step{
		ID: "bundle", Action: plan.Change, Subject: "cluster", Consent: ConsentBundle,
		Title:   fmt.Sprintf("take bundle %s in place of %s", shortID(a.bundle.ID), shortID(was)),
		Reason:  "the bundle at hand is not the one that the cluster was built with",
		Details: []string{"every program and image that differs is replaced, machine by machine"},
		Run:     func(ctx context.Context, _ plan.Progress) error { return a.rememberBundle(ctx) },
	})
}

// rememberBundle remembers that the cluster is what its bundle holds.
func (c *Cluster) rememberBundle(ctx context.Context) error {
	if c.bundle == nil {
		return nil
	}
	return c.facts.Set(ctx, memory.Bundle, c.bundle.Manifest.Title()+" "+c.bundle.ID)
}

// shortID is as much of a bundle's ID as people are shown.
func shortID(id string) string { return id[:min(len(id), 12)] }
