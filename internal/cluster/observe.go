package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Observed is what was found of a cluster: the provider's machines, what each machine says of itself, and, where they
// answer, the Kubernetes API and etcd.
type Observed struct {
	Inventory             *provider.Inventory
	Machines              map[string]*Seen         // by name; every machine of the inventory but those in Replaced
	Replaced              map[string]*Seen         // by name; machines whose places are to be filled anew
	Drifted               map[string][]string      // by name; what only another machine mends, of those in Replaced
	Nodes                 map[string]kube.NodeInfo // by name; nil where the API does not answer
	APIErr                error                    // why the API does not answer; nil where it does or where it isn't there yet
	Members               []etcd.Member            // nil where etcd does not answer
	Health                []etcd.Health            // of Members
	EtcdErr               error                    // why etcd does not answer
	Recorded              bool                     // kubeadm's records and addons are in the cluster and as we want them
	ProxyTimeoutsReverted bool                     // somebody's kubeadm has put kube-proxy back to what it is elsewhere
	Addons                map[string]bool          // whether an addon's manifests are in the cluster and as we want them
	Want                  []wanted.Slot            // machines that should exist
	Remove                []provider.Machine       // machines that should go
	Obstacles             []string                 // what may hold an upgrade up, or break by it
	Warnings              []string                 // what the provider finds odd about machines that are to be made, or are there
}

// Seen is one machine as observed.
type Seen struct {
	Machine provider.Machine
	Report  *machine.Report // what the agent would change to reach the wanted configuration; nil where it was not asked
	Err     error           // why it was not asked or did not answer
	Anew    bool            // of one in Replaced: the same machine is to take its place again
	Behind  string          // of a control-plane machine that is as wanted: what kubelet has yet to start of it; empty: nothing
}

// UpToDate reports whether the machine runs, answers and is as wanted.
func (s *Seen) UpToDate() bool {
	return s != nil && s.Machine.State == provider.Running && s.Err == nil && s.Report != nil &&
		len(s.Report.Changes) == 0 && len(s.Report.Missing) == 0
}

// Observe looks at everything at once. It changes nothing on machines.
func (c *Cluster) Observe(ctx context.Context) (*Observed, error) {
	o, err := c.observeInventory(ctx, c.Decided())
	if err != nil {
		return nil, err
	}
	return o, c.observeRest(ctx, o)
}

// observeInventory finds the machines that there are and says which there should be.
func (c *Cluster) observeInventory(ctx context.Context, decided wanted.Decisions) (*Observed, error) {
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
		if d := decided[m.Name]; d.Replaces() && !removedFrom(o, m.Name) {
			o.Replaced[m.Name] = &Seen{Machine: m, Anew: d == wanted.Reinstall}
		} else {
			o.Machines[m.Name] = &Seen{Machine: m}
		}
	}
	return o, nil
}

// observeRest asks the API, etcd and the machines.
func (c *Cluster) observeRest(ctx context.Context, o *Observed) error {
	var g errgroup.Group
	g.Go(func() error { return c.observeAPI(ctx, o) })
	g.Go(func() error { return c.observeEtcd(ctx, o) })
	g.Go(func() error { return c.observeMachines(ctx, o) })
	g.Go(func() error { c.examineFresh(ctx, o); return ctx.Err() })
	return g.Wait()
}

// observeMachines asks the agent of every wanted, running machine what it would change.
func (c *Cluster) observeMachines(ctx context.Context, o *Observed) error {
	var wg sync.WaitGroup
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		if seen == nil || !c.CanRender(s) || c.unreached(s, seen) || seen.Machine.State != provider.Running {
			continue
		}
		wg.Go(func() {
			r, err := c.configure(ctx, s, true, nil)
			if err != nil {
				seen.Err = err
				return
			}
			seen.Report = &r
			if s.IsControlPlane() && c.Facts.Bootstrapped() && seen.UpToDate() {
				seen.Behind = c.behind(ctx, s.Name)
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// roomForBlob is how many bytes a byte of a bundle takes on a machine: as it was sent, in containerd's store, and unpacked there.
const roomForBlob = 3

// shortOfRoom says which machines lack the room for what is to be laid out on them.
func (c *Cluster) shortOfRoom(o *Observed) (found []string) {
	sizes := map[string]int64{}
	for _, b := range c.ByRelease {
		for _, a := range b.Manifest.Binaries {
			sizes[a.Digest] = a.Size
		}
		for _, i := range b.Manifest.Images {
			sizes[i.Archive.Digest] = i.Archive.Size
		}
	}
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		if seen == nil || seen.Report == nil || seen.Report.DiskFree == 0 {
			continue
		}
		need := int64(0)
		for _, digest := range seen.Report.Missing {
			need += roomForBlob * sizes[digest]
		}
		if free := seen.Report.DiskFree; free < need {
			found = append(found, fmt.Sprintf("machine %s has %d MiB free below /var/lib, and what is to be laid out there takes up to %d MiB", s.Name, free>>20, need>>20))
		}
	}
	return found
}

// observeAPI asks the API for nodes and for what we put there.
func (c *Cluster) observeAPI(ctx context.Context, o *Observed) error {
	if !c.Facts.Bootstrapped() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		o.APIErr = err
		return nil
	}
	nodes, err := client.Nodes(ctx)
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
	return c.observeAddons(ctx, client, o)
}

// observeEtcd lists members and their health.
func (c *Cluster) observeEtcd(ctx context.Context, o *Observed) error {
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

// member returns the etcd member of a machine.
func (o *Observed) member(name string) (etcd.Member, bool) {
	for _, m := range o.Members {
		if m.Name == name {
			return m, true
		}
	}
	return etcd.Member{}, false
}

// serves reports whether a control-plane machine may run and its etcd member answers: what restarts it must not restart others at once.
func (o *Observed) serves(name string) bool {
	s := o.Machines[name]
	if s == nil || !s.Machine.MayRun() || o.EtcdErr != nil {
		return false
	}
	return !o.mute(name)
}

// mute reports whether a machine's etcd member was asked and does not answer.
func (o *Observed) mute(name string) bool {
	return slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return h.Name == name && !h.Reachable })
}

// running reports whether the machine exists and runs, or may.
func (o *Observed) running(name string) bool {
	s := o.Machines[name]
	if s == nil {
		s = o.Replaced[name]
	}
	return s != nil && s.Machine.MayRun()
}

// expected lists the wanted machines but for those of a roll that were not made: nobody misses these.
func (o *Observed) expected() []wanted.Slot {
	return slices.DeleteFunc(slices.Clone(o.Want), func(s wanted.Slot) bool { return s.Surge && o.machine(s.Name) == nil })
}

// Things lists what was observed, one line a thing, sorted: machines with their state and addresses, nodes, members of etcd, and what
// could not be asked. Two plans from the same lines were made from the same state, as far as it can be told.
func (o *Observed) Things() []string {
	var out []string
	add := func(words ...string) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		out = append(out, strings.Join(words, " "))
	}
	for _, m := range o.Inventory.Machines {
		add("machine", m.Name, string(m.State), m.Address, m.Public, m.ID)
	}
	for _, other := range o.Inventory.Others {
		add("other", other)
	}
	if o.Inventory.VIP != "" {
		add("virtual address", o.Inventory.VIP)
	}
	for name, n := range o.Nodes {
		add("node", name, n.Version)
	}
	for _, m := range o.Members {
		add("etcd member", m.Name)
	}
	if o.APIErr != nil {
		add("the API does not answer")
	}
	if o.EtcdErr != nil {
		add("etcd does not answer")
	}
	slices.Sort(out)
	return out
}

// Backups says how a cluster's backups are.
type Backups struct {
	Last     time.Time `json:"last,omitzero"` // when the last one was made; none: zero
	LastID   string    `json:"lastID,omitempty"`
	Proven   time.Time `json:"proven,omitzero"` // when the last one was made that a rehearsal has found whole; none: zero
	ProvenID string    `json:"provenID,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why it can't be told
	// Scheduled are those that machines make by themselves; nil where they make none.
	Scheduled *Scheduled `json:"scheduled,omitempty"`
}

// backupsLook bounds looking for backups where something else is asked.
const backupsLook = 5 * time.Second

// backups looks for the last backup and the last proven one.
func (c *Cluster) backups(ctx context.Context) *Backups {
	scheduled := c.onSchedule(ctx)
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	last, proven, err := backup.Newest(ctx, c.BackupTarget(), c.Name(), c.Record.ID)
	b := &Backups{Scheduled: scheduled}
	if err != nil {
		b.Problem = err.Error()
	}
	if last != nil {
		b.Last, b.LastID = last.CreatedAt, last.ID
	}
	if proven != nil {
		b.Proven, b.ProvenID = proven.CreatedAt, proven.ID
	}
	return b
}
