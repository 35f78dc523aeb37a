// Package bundles finds the bundles of Kubernetes releases in the operator's library, and obtains missing ones.
//
// Package bundle builds bundles.
package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// Need is how much a verb needs the bundle of a cluster's Kubernetes release.
type Need int

// The needs, the lowest first.
const (
	NotNeeded Need = iota // not at all
	IfHere                // only if the library has it
	Made                  // pulled or built if the library lacks it
)

// Library opens the library of bundles in a directory; "" is the default directory.
func Library(root string) (*bundle.Library, error) {
	if root == "" {
		var err error
		if root, err = bundle.DefaultRoot(); err != nil {
			return nil, err
		}
	}
	return bundle.OpenLibrary(root)
}

// Get finds or obtains the bundle of a Kubernetes release for a document's cluster: the cluster's current bundle, with ID was, if the library
// has it, else the newest one. It does not switch to a newer bundle unasked, because that would replace the programs on every machine. It also
// returns the newest bundle, and writes a notice to w if the library has no suitable one.
func Get(ctx context.Context, w io.Writer, doc *v1alpha1.Cluster, version string, need Need, was string) (use, newest *bundle.Bundle, err error) {
	lib, err := Library("")
	if err != nil {
		return nil, nil, err
	}
	addons := AddonsOf(doc)
	if own := covering(ctx, lib, was, version, addons); own != nil { // removing an addon from the document requires no other bundle
		return own, own, nil
	}
	if newest, err = lib.Find(ctx, version, addons...); fail.KindOf(err) == fail.NotFound {
		newest, err = obtain(ctx, w, lib, doc, version, need)
	}
	if err != nil || was == "" {
		return newest, newest, err
	}
	own, err := lib.Get(ctx, was)
	if newest == nil { // planning with the cluster's own bundle shows the changes; the apply obtains the document's bundle before the first step
		if err != nil || own.Manifest.Kubernetes != version {
			own = nil
		}
		return own, own, nil
	}
	switch {
	case fail.KindOf(err) == fail.NotFound, err == nil && own.Manifest.Title() != newest.Manifest.Title():
		return newest, newest, nil
	case err != nil:
		return nil, nil, err
	}
	return own, newest, nil
}

// covering returns the bundle with this ID if the library has it, it is of the release, and it has all these sets of addons and more; else nil.
func covering(ctx context.Context, lib *bundle.Library, id, version string, addons []string) *bundle.Bundle {
	if id == "" {
		return nil
	}
	own, err := lib.Get(ctx, id)
	if err != nil || own.Manifest.Kubernetes != version || len(own.Manifest.Addons) == len(addons) || !own.Manifest.Has(addons) {
		return nil
	}
	return own
}

// obtain pulls or builds a bundle that the library lacks. With IfHere it only writes a notice to w and returns nil.
func obtain(ctx context.Context, w io.Writer, lib *bundle.Library, doc *v1alpha1.Cluster, version string, need Need) (b *bundle.Bundle, err error) {
	if need == IfHere {
		fmt.Fprintf(w, "The bundle of Kubernetes %s is not available here yet: apply gets it first; compiling it takes 10 to 25 minutes on two cores.\n", version)
		return nil, nil
	}
	if err := checkRelease(version); err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "The bundle of Kubernetes %s is not in the library yet: getting it. Compiling one takes 10 to 25 minutes on two cores, once.\n", version)
	report := progress.Bundle(w)
	group, ctx := errgroup.WithContext(ctx)
	if l := doc.Spec.Provider.Local; l != nil && os.Geteuid() == 0 {
		group.Go(func() error { return makeBase(ctx, l.Image.Suite, report) }) // it mostly waits for a mirror, as the bundle does
	}
	group.Go(func() error {
		b, err = lib.Ensure(ctx, version, bundle.EnsureOptions{Addons: AddonsOf(doc), Progress: report})
		return err
	})
	err = group.Wait()
	return b, err
}

// Check reports whether the library has a bundle of a release for a document; was is the ID of the cluster's bundle, if it has one. It returns
// fail.Invalid if the bundle is missing and has no recipe.
func Check(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (here bool, err error) {
	lib, err := Library("")
	if err != nil {
		return false, err
	}
	if covering(ctx, lib, was, version, AddonsOf(doc)) != nil {
		return true, nil
	}
	if _, err = lib.Find(ctx, version, AddonsOf(doc)...); fail.KindOf(err) == fail.NotFound {
		return false, checkRelease(version)
	}
	return err == nil, err
}

// CheckRelease refuses a document if its release has no recipe and the library has no bundle of it.
func CheckRelease(ctx context.Context, doc *v1alpha1.Cluster) error {
	refused := checkRelease(doc.Spec.Kubernetes.Version)
	if refused == nil {
		return nil
	}
	if here, _ := Check(ctx, doc, doc.Spec.Kubernetes.Version, ""); here { // an unreadable bundle counts as missing
		return nil
	}
	return refused
}

// CheckLocated is CheckRelease with the error's position in the document's file.
func CheckLocated(ctx context.Context, doc *v1alpha1.Cluster, file string, data []byte) error {
	err := CheckRelease(ctx, doc)
	var refused, cause *fail.Error
	if fail.KindOf(err) != fail.Invalid || !errors.As(err, &refused) || !errors.As(refused.Err, &cause) {
		return err
	}
	at := v1alpha1.Refusal{{Field: refused.Where, Problem: cause.What, Hint: cause.Hint}}
	return v1alpha1.Errors(at.Locate(file, data))
}

func checkRelease(version string) error {
	if err := bundle.CheckRelease(version); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "get its bundle").At("spec.kubernetes.version")
	}
	return nil
}

// Once passes each notice on once: a plan asks for the same bundle several times.
type Once struct {
	To   io.Writer
	mu   sync.Mutex
	told map[string]bool
}

// Write drops a notice that it has already passed on.
func (o *Once) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told[string(p)] {
		return len(p), nil
	}
	if o.told == nil {
		o.told = map[string]bool{}
	}
	o.told[string(p)] = true
	return o.To.Write(p)
}

// makeBase puts the root file system of local machines into the cache, and reports it as if it were a component of a bundle.
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

// AddonsOf lists the sets of addons that a document needs in its bundle.
func AddonsOf(doc *v1alpha1.Cluster) []string {
	var sets []string
	if doc.Spec.Provider.OpenStack != nil {
		sets = append(sets, bundle.AddonOpenStack)
	}
	for _, a := range doc.Spec.Addons {
		sets = append(sets, a.Name)
	}
	return sets
}
