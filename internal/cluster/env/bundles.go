package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/store"
)

// Bundles finds or makes the bundle of a Kubernetes release: the one to use and the newest local one, which usually are the same. Both are nil if
// there is no local bundle and none is necessary.
type Bundles func(ctx context.Context, version string) (use, newest *bundle.Bundle, err error)

// Gather finds or makes the bundles of all releases that are used.
func (c *Env) Gather(ctx context.Context) error {
	if c.Find == nil {
		return nil
	}
	told, have := c.Told(), maps.Clone(c.ByRelease)
	if have == nil {
		have = map[string]*bundle.Bundle{}
	}
	all := true
	use := told.Versions()
	for _, p := range c.Doc.Spec.Workers {
		use = append(use, hops.OfPool(told, p.Version))
	}
	for _, v := range use {
		if have[v] != nil {
			continue
		}
		b, newest, err := c.Find(ctx, v)
		if err != nil {
			return err
		}
		if all = all && b != nil; b != nil {
			have[v] = b
		}
		if v == told.Machines {
			c.Newest = newest
		}
	}
	c.ByRelease, c.Current = have, nil
	if all {
		c.Current = have[told.Machines]
	}
	return nil
}

// OpenBlob opens a blob of the bundle, to send it to a machine.
func (c *Env) OpenBlob(digest string) (io.ReadCloser, int64, error) {
	f, err := os.Open(c.Current.Path(digest))
	if errors.Is(err, fs.ErrNotExist) && c.Doc.Spec.Registry != nil && !c.Current.Contains(digest) {
		return nil, 0, fail.Wrap(fail.NotFound, err, "open a file of the images that the registry inside the cluster serves").
			Do("bring the images here: naupegos bundle import, or naupegos bundle add")
	}
	if err != nil {
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s of bundle %s", digest, c.Current.ID).Do("run naupegos bundle verify %s", c.Current.ID)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s", digest)
	}
	return f, st.Size(), nil
}

// ConsentBundle is the consent to take a running cluster's programs and images from another bundle of its release than the one that it was built with.
const ConsentBundle = "other-bundle"

// BuiltWith returns the title and the ID of the bundle that the cluster was last brought to.
func (c *Env) BuiltWith() (title, id string) {
	title, id, _ = strings.Cut(c.Facts.Get(memory.Bundle), " ")
	return title, id
}

// ReleaseOf returns the Kubernetes release that a cluster was last brought to, from its facts; "" before the first apply ended.
func ReleaseOf(learned store.Facts) string {
	title, _, _ := strings.Cut(learned[store.Fact{Kind: string(memory.Bundle)}], " ")
	return title
}

// ReleaseOf returns a machine's release: the cluster's, or the older release of its pool.
func (c *Env) ReleaseOf(s wanted.Slot) layout.Release {
	return c.ReleaseAt(hops.OfPool(c.Told(), c.Pin(s)))
}

// OtherBundle reports whether the local bundle differs from the bundle of the same release that the running cluster was built with.
func (c *Env) OtherBundle() bool {
	title, was := c.BuiltWith()
	return c.Current != nil && title == c.Current.Manifest.Title() && was != c.Current.ID && c.Facts.Bootstrapped()
}

// NewerBundle returns a note if a newer bundle of the release is here than the one in use, else "".
func (c *Env) NewerBundle() string {
	if c.Current == nil || c.Newest == nil || c.Newest.ID == c.Current.ID || c.Newest.Manifest.Title() != c.Current.Manifest.Title() {
		return ""
	}
	return fmt.Sprintf("a newer bundle of Kubernetes %s is available, %s: the cluster keeps %s, with which it was built, until naupegos apply --consent %s",
		c.Newest.Manifest.Title(), ShortID(c.Newest.ID), ShortID(c.Current.ID), ConsentBundle)
}

// BundleNote returns a note if the cluster's bundle is missing here, or a newer one is here, else "".
func (c *Env) BundleNote() string {
	if c.OtherBundle() {
		_, was := c.BuiltWith()
		return fmt.Sprintf("bundle %s, with which the cluster was built, is not available here, but %s is: apply --consent %s takes programs and images from it",
			ShortID(was), ShortID(c.Current.ID), ConsentBundle)
	}
	return c.NewerBundle()
}

// RememberBundle remembers the bundle that the cluster was brought to.
func (c *Env) RememberBundle(ctx context.Context) error {
	if c.Current == nil {
		return nil
	}
	return c.Facts.Set(ctx, memory.Bundle, c.BundleToBe())
}

// BundleToBe is the fact of the bundle that the cluster is being brought to, which is remembered once it is.
func (c *Env) BundleToBe() string {
	if c.Current == nil {
		return c.Facts.Get(memory.Bundle)
	}
	return c.Current.Manifest.Title() + " " + c.Current.ID
}

// ShortID is as much of a bundle's ID as people are shown.
func ShortID(id string) string { return id[:min(len(id), 12)] }
