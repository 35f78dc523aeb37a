package report

import (
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// signs collects the inputs of causes besides the status.
func (c *Reporter) signs(o *observe.Observed, now time.Time) signs {
	g := signs{
		now: now, built: c.Facts.Bootstrapped(), apiErr: o.APIErr, etcdErr: o.EtcdErr, underway: c.underway(), pending: c.pending(),
		moving: c.Moving(), rotating: c.Rotating(), newer: c.NewerBundle() != "", unpacked: c.Current != nil,
	}
	if made, err := time.Parse(time.RFC3339, c.Facts.Get(memory.Restored)); err == nil {
		g.restored = made.Local().Format(time.DateTime)
	}
	if c.SoakNote() != "" {
		told := c.Told()
		g.soaking = "the upgrade to " + told.Servers + " soaks: machines still run " + told.Machines
	}
	if r, err := c.ToldRotation(); err == nil && !r.IsZero() && c.Held(r) {
		g.held = "the old " + strings.Join(r.Keys(), ", ") + " stay trusted"
	}
	if c.OtherBundle() {
		g.bundle = env.ConsentBundle
	}
	if o.Addons != nil && o.APIErr == nil {
		g.records, g.proxy = !o.Recorded, o.ProxyTimeoutsReverted
		for name, same := range o.Addons {
			if !same {
				g.addons = append(g.addons, "addon "+name)
			}
		}
		for key, seen := range o.Sets {
			if !seen.Clean() {
				g.addons = append(g.addons, objects.SetTitle(key))
			}
		}
		if o.SetsErr != nil {
			g.addons = append(g.addons, "the manifests and charts ("+o.SetsErr.Error()+")")
		}
		slices.Sort(g.addons)
	}
	return g
}

// pending reports whether the stored document differs from the document that the cluster was last brought to. Both get the defaults of this release.
func (c *Reporter) pending() bool {
	was := c.Facts.Get(memory.Converged)
	if was == "" || len(c.Record.Document) == 0 {
		return false
	}
	before, err := validation.Parse("", []byte(was))
	if err != nil {
		return false
	}
	now, err := validation.Parse("", c.Record.Document)
	if err != nil {
		return false
	}
	a, errA := before.Marshal()
	b, errB := now.Marshal()
	return errA == nil && errB == nil && string(a) != string(b)
}

// underway returns an unfinished verb as a cause, or nil if there is none.
func (c *Reporter) underway() *Cause {
	name := c.Name()
	switch {
	case c.Facts.Is(memory.Resetting):
		return &Cause{Text: "a reset is not finished", Remedy: "naupegos reset " + name, Does: "continues it"}
	case c.Facts.Is(memory.Releasing):
		return &Cause{Text: "a release is not finished", Remedy: "naupegos release " + name + " DIR", Does: "continues it"}
	case c.Facts.Is(memory.Importing):
		return &Cause{Text: "the cluster is not taken over yet", Remedy: "naupegos import " + name + " --adopt", Does: "continues it"}
	}
	if r := c.Recovering(); r != nil {
		return &Cause{Text: "the recovery of etcd is not finished", Remedy: "naupegos etcd recover " + name + " --from " + r.From, Does: "continues it"}
	}
	if r := c.Restoring(); r != nil && r.Living {
		return &Cause{Text: "the restore of backup " + r.Set + " is not finished", Remedy: "naupegos backup restore " + name + " --from " + r.Set + " --consent " + backups.ConsentRestore, Does: "continues it"}
	}
	return nil
}
