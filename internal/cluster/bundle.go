package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
)

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
	if c.bundle == nil || c.newest == nil || c.newest.ID == c.bundle.ID {
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
