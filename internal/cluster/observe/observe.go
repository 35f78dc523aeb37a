// Package observe looks at a cluster: at the provider's machines, at each machine's own report, at the API and at etcd.
package observe

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/judge"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/siteset"
)

// Observer observes one cluster, and makes its machines match their configuration.
type Observer struct {
	*render.Renderer
	Plane       Plane            // nil: the cluster itself; tests replace it
	Sets        siteset.Renderer // nil: in this process
	Judge       judge.Judge      // checks machines' facts
	introducing sync.Mutex       // held while the other machines learn of one: their configurations name all known machines
}

// Observed is what Observe found: the provider's machines, each machine's own report, and, if they answer, the Kubernetes API and etcd.
type Observed struct {
	Inventory             *provider.Inventory
	Machines              map[string]*Seen           // by name; every machine of the inventory but those in Replaced
	Replaced              map[string]*Seen           // by name; machines to be replaced
	Drifted               map[string][]string        // by name; of those in Replaced, the differences that only a new machine can fix
	Nodes                 map[string]kube.NodeInfo   // by name; nil if the API does not answer
	APIErr                error                      // why the API does not answer; nil if it does or does not exist yet
	Members               []etcd.Member              // nil where etcd does not answer
	Health                []etcd.Health              // of Members
	EtcdErr               error                      // why etcd does not answer
	Recorded              bool                       // kubeadm's records and addons are in the cluster and as we want them
	ProxyTimeoutsReverted bool                       // a foreign kubeadm has reset kube-proxy to its defaults
	Addons                map[string]bool            // whether an addon's manifests are in the cluster and as we want them
	AddonFindings         map[string]objects.Finding // of the addons that are not: what differs
	AddonLoses            map[string][]string        // volumes that are lost when the sets become so
	AddonDefined          map[string][]string        // and the definitions that they lose with objects of other owners
	Surplus               []SurplusAddon             // addons that the document no longer lists
	Sets                  map[string]*SeenSet        // manifests and charts of the document, by key; a missing one could not be observed
	SurplusSets           []SurplusSet               // sets that the document no longer lists
	SetsErr               error                      // why Sets and SurplusSets could not be observed; nil if they were, or the API does not answer
	Want                  []wanted.Slot              // machines that should exist
	Remove                []provider.Machine         // machines that should go
	Obstacles             []string                   // obstacles that may delay an upgrade, or break because of it
	Warnings              []string                   // the provider's warnings about planned and present machines
}

// Seen is one machine as observed.
type Seen struct {
	Machine provider.Machine
	Report  *machine.Report // what the agent would change to reach the wanted configuration; nil if it was not asked
	Err     error           // why it was not asked or did not answer
	Anew    bool            // of one in Replaced: the same machine is to take its place again
}

// UpToDate reports whether the machine runs, answers and is as wanted.
func (s *Seen) UpToDate() bool {
	return s != nil && s.Machine.State == provider.Running && s.Err == nil && s.Report != nil &&
		len(s.Report.Changes) == 0 && len(s.Report.Missing) == 0
}

// Observe looks at everything at once. It changes nothing on machines.
func (c *Observer) Observe(ctx context.Context) (*Observed, error) {
	o, err := c.ObserveInventory(ctx, c.Decided())
	if err != nil {
		return nil, err
	}
	return o, c.ObserveRest(ctx, o)
}

// ObserveInventory determines the existing and the wanted machines.
func (c *Observer) ObserveInventory(ctx context.Context, decided wanted.Decisions) (*Observed, error) {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ForgetGone(ctx, inv); err != nil {
		return nil, err
	}
	o := &Observed{Inventory: inv, Machines: map[string]*Seen{}, Replaced: map[string]*Seen{}}
	o.Want, o.Remove = wanted.Assign(c.Doc, inv.Machines, decided)
	c.SetTarget(o.Want)
	for _, m := range inv.Machines {
		if d := decided[m.Name]; d.Replaces() && !RemovedFrom(o, m.Name) {
			o.Replaced[m.Name] = &Seen{Machine: m, Anew: d == wanted.Reinstall}
		} else {
			o.Machines[m.Name] = &Seen{Machine: m}
		}
	}
	return o, nil
}

// ObserveRest asks the API, etcd and the machines.
func (c *Observer) ObserveRest(ctx context.Context, o *Observed) error {
	var g errgroup.Group
	g.Go(func() error {
		if err := c.ObserveAPI(ctx, o); err != nil || o.APIErr != nil {
			return err
		}
		return c.observeSets(ctx, o)
	})
	g.Go(func() error { return c.ObserveEtcd(ctx, o) })
	g.Go(func() error { return c.observeMachines(ctx, o) })
	g.Go(func() error { c.examineFresh(ctx, o); return ctx.Err() })
	return g.Wait()
}

// renderedAtOnce bounds the configurations that are rendered at the same time, and so their memory. An issuer of certificates may take a while for each.
const renderedAtOnce = 16

// observeMachines asks the agent of every wanted, running machine what it would change.
func (c *Observer) observeMachines(ctx context.Context, o *Observed) error {
	var wg sync.WaitGroup
	r, rendering := c.Snapshot(), make(chan struct{}, renderedAtOnce)
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		if seen == nil || !c.CanRender(s) || c.Unreached(s, seen) || seen.Machine.State != provider.Running {
			continue
		}
		wg.Go(func() {
			report, err := c.configure(ctx, r, rendering, s, true, nil)
			if err != nil {
				seen.Err = err
				return
			}
			seen.Report = &report
		})
	}
	wg.Wait()
	return ctx.Err()
}

// ObserveAPI asks the API for nodes, records and addons; not for the document's sets, which may be many objects.
func (c *Observer) ObserveAPI(ctx context.Context, o *Observed) error {
	if !c.Facts.Bootstrapped() {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(asking)
	if err != nil {
		o.APIErr = err
		return nil
	}
	nodes, err := client.Nodes(asking)
	if err != nil {
		o.APIErr = err
		return nil
	}
	o.Nodes = map[string]kube.NodeInfo{}
	for _, n := range nodes {
		o.Nodes[n.Name] = n
	}
	if c.Current == nil {
		return nil
	}
	ctx, cancel = context.WithTimeout(ctx, max(setsTime, env.ObserveTime(c.Doc))) // many requests, on a busy host
	defer cancel()
	return c.observeAddons(ctx, client, o)
}

// ObserveEtcd lists members and their health.
func (c *Observer) ObserveEtcd(ctx context.Context, o *Observed) error {
	if !c.Facts.Bootstrapped() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.EtcdClient(ctx, o.Inventory.Machines)
	if err != nil {
		o.EtcdErr = err
		return nil
	}
	defer client.Close()
	if o.Members, err = client.Members(ctx); err != nil {
		o.EtcdErr = err
		return nil
	}
	o.Health = client.Health(ctx, o.Members)
	return nil
}

// ControlPlaneUnseen reports whether the API or etcd of a cluster that is up could not be seen.
func (c *Observer) ControlPlaneUnseen(o *Observed) bool {
	return c.Facts.Bootstrapped() && (o.APIErr != nil || o.EtcdErr != nil)
}

// RemovedFrom reports whether a machine is among those to be removed.
func RemovedFrom(o *Observed, name string) bool {
	for _, m := range o.Remove {
		if m.Name == name {
			return true
		}
	}
	return false
}
