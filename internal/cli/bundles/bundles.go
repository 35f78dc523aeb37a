// Package bundles finds the bundles of Kubernetes releases in the operator's library, and makes those that are not there.
//
// How a bundle is made is internal/bundle's business.
package bundles

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// Need says how much a verb needs the bundle of a cluster's Kubernetes release.
type Need int

// The needs, the least first.
const (
	NotNeeded Need = iota // not at all
	IfHere                // if it is here
	Made                  // pulled or built if it isn't here
)

// Library opens the library of bundles in a directory; empty, it is the default one.
func Library(root string) (*bundle.Library, error) {
	if root == "" {
		var err error
		if root, err = bundle.DefaultRoot(); err != nil {
			return nil, err
		}
	}
	return bundle.OpenLibrary(root)
}

// Get finds or makes the bundle of a Kubernetes release for the cluster of a document: the one that the cluster was built with (was) where it is here, else the
// newest. A bundle that was made since is not taken unasked: it would replace what runs on every machine. It tells w of one that is not here.
func Get(ctx context.Context, w io.Writer, doc *v1alpha1.Cluster, version string, need Need, was string) (use, newest *bundle.Bundle, err error) {
	lib, err := Library("")
	if err != nil {
		return nil, nil, err
	}
	addons := AddonsOf(doc)
	if newest, err = lib.Find(ctx, version, addons...); fail.KindOf(err) == fail.NotFound {
		newest, err = obtain(ctx, w, lib, doc, version, need)
	}
	if err != nil || newest == nil || was == "" {
		return newest, newest, err
	}
	own, err := lib.Get(ctx, was)
	switch {
	case fail.KindOf(err) == fail.NotFound, err == nil && own.Manifest.Title() != newest.Manifest.Title():
		return newest, newest, nil
	case err != nil:
		return nil, nil, err
	}
	return own, newest, nil
}

// obtain gets a bundle that is not here, if it is needed so much.
func obtain(ctx context.Context, w io.Writer, lib *bundle.Library, doc *v1alpha1.Cluster, version string, need Need) (b *bundle.Bundle, err error) {
	if need == IfHere {
		fmt.Fprintf(w, "The bundle of Kubernetes %s is not available here yet: apply gets it first; compiling it takes 10 to 25 minutes on two cores.\n", version)
		return nil, nil
	}
	fmt.Fprintf(w, "The bundle of Kubernetes %s is not in the library yet: getting it. Compiling one takes 10 to 25 minutes on two cores, once.\n", version)
	report := progress.Bundle(w)
	group, ctx := errgroup.WithContext(ctx)
	if l := doc.Spec.Provider.Local; l != nil && os.Geteuid() == 0 {
		group.Go(func() error { return makeBase(ctx, l.Image.Suite, report) }) // it is mostly waiting, as for a mirror
	}
	group.Go(func() error {
		b, err = lib.Ensure(ctx, version, bundle.EnsureOptions{Addons: AddonsOf(doc), Progress: report})
		return err
	})
	err = group.Wait()
	return b, err
}

// makeBase puts the root file system of local machines into the cache, and reports it as a component of a bundle is reported.
func makeBase(ctx context.Context, suite string, report func(bundle.Event)) error {
	e := bundle.Event{Component: "debian " + suite, Phase: "make"}
	report(e)
	began := time.Now()
	err := local.MakeBase(ctx, suite, progress.None{})
	if err == nil {
		e.Finished, e.Elapsed = true, time.Since(began)
		report(e)
	}
	return err
}

// AddonsOf lists the sets of addons that a document's bundle has.
func AddonsOf(doc *v1alpha1.Cluster) []string {
	if doc.Spec.Provider.OpenStack != nil {
		return []string{bundle.AddonOpenStack}
	}
	return nil
}
