package env

import (
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/provider"
)

// Told returns the releases for which the parts of the cluster are rendered.
func (c *Env) Told() hops.Releases { return ToldBy(c.Facts, c.Doc.Spec.Kubernetes.Version) }

// ToldBy returns the same from facts alone. version is the release of a cluster without such facts: it is new, or older than these facts.
func ToldBy(f *memory.Facts, version string) hops.Releases {
	if r := RestoringBy(f); r != nil && !f.Bootstrapped() {
		return hops.Of(r.Kubernetes)
	}
	if !f.Bootstrapped() {
		return hops.Of(version)
	}
	if r, err := hops.Parse(f.Get(memory.Releases)); err == nil {
		return r
	}
	if title, _, _ := strings.Cut(f.Get(memory.Bundle), " "); title != "" {
		version, _, _ = strings.Cut(title, "+") // the sets of addons follow
	}
	return hops.Of(version)
}

// Goal returns the release that the document wants.
func (c *Env) Goal() hops.Goal {
	v := c.Doc.Spec.Kubernetes.Version
	return hops.Goal{Version: v, Finish: c.Facts.Get(memory.Finish) == v || c.soaked()}
}

// SoakEnds returns when a waiting upgrade continues without confirmation, as set in the document; zero if it doesn't, or if none waits.
func (c *Env) SoakEnds() time.Time {
	since, err := time.Parse(time.RFC3339, c.Facts.Get(memory.SoakSince))
	if d := c.Doc.Spec.Updates.Soak.Duration; err == nil && d > 0 && c.Told().Soaking() {
		return since.Add(d)
	}
	return time.Time{}
}

// soaked reports whether an upgrade has waited as long as the document requires.
func (c *Env) soaked() bool {
	ends := c.SoakEnds()
	return !ends.IsZero() && !time.Now().Before(ends) && !c.Moving()
}

// Upgrading reports whether a later plan has more to do.
func (c *Env) Upgrading() bool {
	if !c.Facts.Bootstrapped() {
		return false
	}
	next, err := hops.Next(c.Told(), c.Goal())
	return c.Moving() || err == nil && next != c.Told()
}

// Moving reports whether some part does not run its release yet.
func (c *Env) Moving() bool {
	run := c.Facts.Get(memory.ReleasesRun)
	return c.Facts.Bootstrapped() && run != "" && run != c.Told().String()
}

// ReleaseAt returns a release with its bundle; zero for none.
func (c *Env) ReleaseAt(version string) layout.Release {
	if version == "" {
		return layout.Release{}
	}
	return layout.Release{Version: version, Bundle: c.BundleAt(version).Manifest}
}

// BundleAt returns the bundle of a release.
func (c *Env) BundleAt(version string) *bundle.Bundle {
	if other := c.ByRelease[version]; other != nil {
		return other
	}
	return c.Current
}

// Release returns the release of the cluster's machines, records and addons.
func (c *Env) Release() layout.Release { return c.ReleaseAt(c.Told().Machines) }

// Servers returns the control plane's servers if their release differs from the machines'.
func (c *Env) Servers() layout.Servers {
	told := c.Told()
	if told.Servers == told.Machines {
		return layout.Servers{}
	}
	return layout.Servers{Release: c.ReleaseAt(told.Servers), Emulates: told.Emulates}
}

// Pin returns the release that the document fixes for a machine's pool; empty if the pool follows the cluster.
func (c *Env) Pin(s wanted.Slot) string {
	for _, p := range c.Doc.Spec.Workers {
		if s.Role == provider.Worker && p.Name == s.Pool {
			return p.Version
		}
	}
	return ""
}
