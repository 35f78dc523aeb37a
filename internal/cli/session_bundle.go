package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// bundleNeed says how much a verb needs the bundle of the cluster's Kubernetes release.
type bundleNeed int

const (
	noBundle   bundleNeed = iota // not at all
	haveBundle                   // if it is here
	getBundle                    // pulled or built if it isn't here
)

// getBundle finds or makes the bundle of a Kubernetes release: the one that the cluster was built with (was) where it is here, else the
// newest. A bundle that was made since is not taken unasked: it would replace what runs on every machine.
func (a *App) getBundle(ctx context.Context, doc *v1alpha1.Cluster, need bundleNeed, was string) (use, newest *bundle.Bundle, err error) {
	root, err := bundle.DefaultRoot()
	if err != nil {
		return nil, nil, err
	}
	lib, err := bundle.OpenLibrary(root)
	if err != nil {
		return nil, nil, err
	}
	version, addons := doc.Spec.Kubernetes.Version, addonsOf(doc)
	if newest, err = lib.Find(ctx, version, addons...); fail.KindOf(err) == fail.NotFound {
		newest, err = a.makeBundle(ctx, lib, doc, need)
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

// makeBundle gets a bundle that is not here, if it is needed so much.
func (a *App) makeBundle(ctx context.Context, lib *bundle.Library, doc *v1alpha1.Cluster, need bundleNeed) (b *bundle.Bundle, err error) {
	version := doc.Spec.Kubernetes.Version
	if need == haveBundle {
		fmt.Fprintf(a.Err, "The bundle of Kubernetes %s is not here yet; apply pulls or builds it first (minutes).\n", version)
		return nil, nil
	}
	fmt.Fprintf(a.Err, "Getting the bundle of Kubernetes %s: built from source, unless the recipe knows the digests of the official downloads and they can be reached.\n", version)
	report := bundleProgress(a.Err)
	group, ctx := errgroup.WithContext(ctx)
	if l := doc.Spec.Provider.Local; l != nil && os.Geteuid() == 0 {
		group.Go(func() error { return makeBase(ctx, l.Image.Suite, report) }) // it is mostly waiting, as for a mirror
	}
	group.Go(func() error {
		b, err = lib.Ensure(ctx, version, bundle.EnsureOptions{Addons: addonsOf(doc), Progress: report})
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
	err := local.MakeBase(ctx, suite, noProgress{})
	if err == nil {
		e.Finished, e.Elapsed = true, time.Since(began)
		report(e)
	}
	return err
}

// noProgress is for work of which begin and end are reported.
type noProgress struct{}

// Status drops what is going on.
func (noProgress) Status(string, ...any) {}
