package cluster

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// logMachines bounds how many machines are asked at once for what they logged.
const logMachines = 8

// apiTroubleTime is how far back complaints count where the API does not answer.
const apiTroubleTime = 15 * time.Minute

// consoler is a provider that keeps its machines' consoles.
type consoler interface {
	// Console returns the end of a machine's console log, at most limit bytes.
	Console(name string, limit int64) ([]byte, error)
}

// Logs writes a support archive (tar, gzip) about the whole cluster to w: what the machines' units and containers logged, what
// the machines are, the cluster's status and document. Whatever can't be had is listed and does not fail the rest. Everything
// is redacted: the cluster's own secrets and whatever looks like one.
func (c *Cluster) Logs(ctx context.Context, w io.Writer, o support.Options) ([]support.Problem, error) {
	r, err := support.NewRedactor(ctx, c.secrets)
	if err != nil {
		return nil, err
	}
	col := support.NewCollection(w, o, c.dialer, r)
	if err := c.collect(ctx, col); err != nil {
		return nil, err
	}
	return col.Finish()
}

func (c *Cluster) collect(ctx context.Context, col *support.Collection) error {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return err
	}
	if err := c.loadTarget(ctx); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(logMachines)
	for _, m := range inv.Machines {
		g.Go(func() error {
			if k, ok := c.prov.(consoler); ok {
				text, err := k.Console(m.Name, col.Options.PerFile)
				col.Add(m.Name, "console.log", text, err)
			}
			col.Machine(ctx, m, func() (remote.Host, error) { return c.Host(ctx, m.Name) })
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for name, data := range col.Options.Extra {
		col.Add("", name, data, nil)
	}
	col.Add("", "document.yaml", c.rec.Document, nil)
	col.JSON("facts.json", func() (any, error) { return c.facts.All(), nil })
	col.JSON("machines.json", func() (any, error) { return inv, nil })
	col.JSON("nodes.json", func() (any, error) { return c.NodeList(ctx) })
	// The last one, for it makes new slots.
	col.JSON("status.json", func() (any, error) { return c.Status(ctx) })
	return ctx.Err()
}

// apiTrouble adds to waited, the error of an API that did not answer in time, which units are not well on the control-plane
// machines, and what they complained about last. The result is final.
func (c *Cluster) apiTrouble(ctx context.Context, waited error) error {
	r, err := support.NewRedactor(ctx, c.secrets)
	if err != nil {
		return err
	}
	names := c.namesOf(provider.ControlPlane)
	found := make([]support.Trouble, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			h, err := c.Host(ctx, name)
			if err != nil {
				found[i].Unseen = err
				return
			}
			found[i] = support.LookForTrouble(ctx, c.dialer, h, r, apiTroubleTime)
		})
	}
	wg.Wait()
	return support.NoAPIBecause(c.Name(), names, waited, found)
}

// nodeTrouble adds to waited, the error of a wait that took too long, what the node's machine knows of the reason: the state
// of its units and what they complained about last. The result is final: the time for waiting is over.
func (c *Cluster) nodeTrouble(ctx context.Context, s wanted.Slot, waited error) error {
	if fail.KindOf(waited) != fail.NotReady { // the API does not answer; this machine may be well
		return fail.Wrap(fail.KindOf(waited), waited, "bring the node in").Enough()
	}
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return support.NotReadyBecause(s.Name, c.Name(), waited, support.Trouble{Unseen: err})
	}
	r, err := support.NewRedactor(ctx, c.secrets)
	if err != nil {
		return err
	}
	return support.NotReadyBecause(s.Name, c.Name(), waited, support.LookForTrouble(ctx, c.dialer, h, r, c.doc.Spec.Timeouts.NodeReady.Duration))
}
