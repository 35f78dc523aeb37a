package removal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// DestroyOptions are the options of destroying a cluster.
type DestroyOptions struct {
	KeepVolumes bool                        // leave the volumes of PersistentVolumeClaims in the cloud
	Forget      func(context.Context) error // runs last, when nothing of the cluster is left
}

// PlanDestroy removes everything of the cluster and, last, forgets it.
func (c *Removal) PlanDestroy(ctx context.Context, opts DestroyOptions) (*plan.Plan, error) {
	if c.Facts.Is(memory.Importing) {
		return nil, env.ErrImporting(c.Name())
	}
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, _ := wanted.Assign(c.Doc, inv.Machines, c.Decided())
	c.SetTarget(want)
	var graph plan.Graph
	switch t := c.Prov.Traits(); {
	case t.Keeps:
		c.planClean(&graph, inv.Machines, c.ResetStep, c.letGo)
	case t.Stock: // machines that do not answer are returned without cleaning
		c.planClean(&graph, inv.Machines, c.CleanStep, func(provider.Machine) *plan.Step { return nil })
	}
	g := c.planFree(ctx, &graph, opts)
	var gone []string
	machines := map[string]bool{}
	for _, m := range inv.Machines {
		gone = append(gone, provider.DestroyStep(m.Name))
		machines[provider.DestroyStep(m.Name)] = true
	}
	steps, err := c.PlanLeftovers(ctx, c.Prov.Destroy(ctx, inv), gone, g, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		s.Removes = s.Removes || machines[s.ID]
		graph.Add(stage.Remove, s)
	}
	graph.Add(stage.Forget, &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster and its keys from the store", Reason: "nothing else of it is left",
		Run: func(ctx context.Context, _ plan.Progress) error { return opts.Forget(ctx) },
	})
	steps, err = graph.Seal(stage.DestroyRules)
	return &plan.Plan{Verb: "destroy", Cluster: c.Name(), Steps: steps, Final: true}, err
}

// planClean cleans machines, gateways last, because they are the way to the others. A machine that can't be cleaned gets another step, or none.
// It returns the steps' IDs.
func (c *Removal) planClean(graph *plan.Graph, machines []provider.Machine, cleaned, other func(provider.Machine) *plan.Step) (all []string) {
	clean := func(role func(provider.Role) bool, needs []plan.Need) (all []string) {
		for _, m := range machines {
			if !role(m.Role) {
				continue
			}
			s := cleaned(m)
			if m.State != provider.Running {
				if s = other(m); s == nil {
					continue
				}
			}
			s.Removes = true
			graph.Add(stage.Clean, s, needs...)
			all = append(all, s.ID)
		}
		return all
	}
	others := clean(func(r provider.Role) bool { return r != provider.Gateway }, nil)
	return append(others, clean(func(r provider.Role) bool { return r == provider.Gateway }, plan.After(others...))...)
}

// letGo returns the step that forgets, without cleaning it, a machine that outlives the cluster and does not answer.
func (c *Removal) letGo(m provider.Machine) *plan.Step {
	s := c.Prov.DestroyMachine(m)
	if c.Facts.Of(memory.Host, m.Name) != "" { // otherwise nothing was ever installed on it
		s.Consent = nodes.ConsentLeave
	}
	return s
}

const freeTimeout = 20 * time.Minute

// Given lists the cloud resources that the cluster itself releases.
type Given struct {
	Held   []kube.CloudResource
	Silent error // why a cluster that is up can't be asked
}

// holds reports whether the cluster releases a volume, or the load balancer of a Service, "namespace/name".
func (g Given) holds(volume, service string) bool {
	return slices.ContainsFunc(g.Held, func(r kube.CloudResource) bool {
		return volume != "" && r.Volume == volume || service != "" && r.Kind == "Service" && r.Namespace+"/"+r.Name == service
	})
}

// planFree makes the cluster give its load balancers and volumes back to the cloud before its machines go, and deletes its credentials.
func (c *Removal) planFree(ctx context.Context, graph *plan.Graph, opts DestroyOptions) Given {
	cloud := c.Cloud()
	if cloud == nil {
		return Given{}
	}
	var g Given
	if c.Facts.Bootstrapped() {
		var free *plan.Step
		if free, g = c.freeStep(ctx, opts); g.Silent == nil {
			graph.Add(stage.Free, free)
		}
	}
	graph.Add(stage.Free, &plan.Step{
		ID: "cloud/credentials", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster's cloud credentials",
		Reason: "nothing uses them any more; credentials of a handover are deleted too",
		Run: func(ctx context.Context, _ plan.Progress) error {
			_, err := cloud.PruneCloudCredentials(ctx)
			return err
		},
	}, plan.IfPlanned(freeStepID)...)
	return g
}

// PlanLeftovers removes, after the machines are gone or clean, what the cluster made in the cloud and did not give back; all of it if the cluster could not
// be asked. Resources that the cluster no longer names, such as a volume whose PersistentVolume was deleted, are named.
func (c *Removal) PlanLeftovers(ctx context.Context, steps []*plan.Step, after []string, g Given, opts DestroyOptions) ([]*plan.Step, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return steps, nil
	}
	all, err := cloud.Leftovers(ctx)
	if err != nil {
		return nil, err
	}
	left := cloud.FreeLeftovers(all, opts.KeepVolumes)
	left.Needs = append(left.Needs, after...)
	left.Details = leftoverNames(all, g, opts.KeepVolumes)
	switch {
	case g.Silent != nil:
		left.Reason = "the cluster can't delete it, because its API does not answer: " + g.Silent.Error()
	case len(left.Details) > 0:
		left.Reason = "the cluster does not delete it itself"
	}
	for i, s := range steps {
		if s.ID == provider.DestroyNetworkStep {
			s.Needs = append(s.Needs, left.ID)
			return slices.Insert(steps, i, left), nil
		}
	}
	return append(steps, left), nil
}

// leftoverNames names the cluster's resources in the cloud that it does not give back.
func leftoverNames(all provider.Leftovers, g Given, keepVolumes bool) []string {
	var out []string
	for _, b := range all.LoadBalancers {
		if !b.Shared && !slices.ContainsFunc(b.Services, func(s string) bool { return g.holds("", s) }) {
			out = append(out, b.String())
		}
	}
	for _, v := range all.Volumes {
		switch {
		case keepVolumes || g.holds(v.ID, ""):
		case v.Stranger != "":
			out = append(out, v.String()+": it stays")
		default:
			out = append(out, v.String())
		}
	}
	return out
}

// KeptVolumes lists the volumes of claims that still exist in the cloud after the cluster's removal.
func (c *Removal) KeptVolumes(ctx context.Context) ([]string, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, nil
	}
	all, err := cloud.Leftovers(ctx)
	var out []string
	for _, v := range all.Volumes {
		out = append(out, v.String())
	}
	return out, err
}

// Findings about a volume.
const (
	VolumeGone      = "gone"      // the cloud has no such volume
	VolumeBroken    = "broken"    // the cloud reports it as failed or being deleted
	VolumeElsewhere = "elsewhere" // a server that is not the cluster's has it attached
	VolumeOrphaned  = "orphaned"  // the cluster has made it, and no PersistentVolume names it
)

// OddVolume is a volume on which the cluster and its cloud disagree.
type OddVolume struct {
	Is               string `json:"is"`                         // one of the above
	PersistentVolume string `json:"persistentVolume,omitempty"` // that names it
	Claim            string `json:"claim,omitempty"`            // namespace/name of its claim
	Volume           string `json:"volume"`                     // its ID in the cloud
	Server           string `json:"server,omitempty"`           // the ID of the one that has it attached
	State            string `json:"state,omitempty"`            // the cloud's word
}

// OddVolumes compares the cluster's PersistentVolumes with the volumes of its cloud, for example after a restore. It changes nothing, and returns
// nil if the cluster is not in a cloud.
func (c *Removal) OddVolumes(ctx context.Context) ([]OddVolume, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, nil
	}
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	named, err := client.NamedVolumes(ctx, addon.CinderDriver)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range named {
		ids = append(ids, n.Volume)
	}
	found, err := cloud.Volumes(ctx, ids)
	return Odd(named, found), err
}

// Odd compares the volumes of PersistentVolumes with the volumes of the cloud, in the order of their names.
func Odd(named []kube.NamedVolume, found []provider.LeftVolume) []OddVolume {
	out, there, known := []OddVolume{}, map[string]provider.LeftVolume{}, map[string]bool{}
	for _, v := range found {
		there[v.ID] = v
	}
	for _, n := range named {
		known[n.Volume] = true
		v, ok := there[n.Volume]
		odd := OddVolume{PersistentVolume: n.Name, Claim: n.Claim, Volume: n.Volume, Server: v.Stranger, State: v.State}
		switch {
		case !ok:
			odd.Is = VolumeGone
		case v.Stranger != "":
			odd.Is = VolumeElsewhere
		case v.State == "deleting" || strings.HasPrefix(v.State, "error"):
			odd.Is = VolumeBroken
		default:
			continue
		}
		out = append(out, odd)
	}
	for _, v := range found {
		if v.Own && !known[v.ID] {
			out = append(out, OddVolume{Is: VolumeOrphaned, Claim: v.Claim, Volume: v.ID, Server: v.Stranger, State: v.State})
		}
	}
	slices.SortFunc(out, func(a, b OddVolume) int {
		return cmp.Or(cmp.Compare(a.Is, b.Is), cmp.Compare(a.PersistentVolume, b.PersistentVolume), cmp.Compare(a.Volume, b.Volume))
	})
	return out
}

const freeStepID = "cloud/free"

// freeStep makes the cluster free its resources in the cloud.
func (c *Removal) freeStep(ctx context.Context, opts DestroyOptions) (*plan.Step, Given) {
	o := kube.FreeOptions{KeepVolumes: opts.KeepVolumes, Timeout: freeTimeout}
	s := &plan.Step{
		ID: freeStepID, Action: plan.Destroy, Subject: "cluster", Title: "delete load balancers and volumes that the cluster created",
		Reason: "they belong to Services and PersistentVolumeClaims", Timeout: freeTimeout,
	}
	if opts.KeepVolumes {
		s.Title, s.Reason = "delete load balancers that the cluster created", "volumes are kept"
	}
	held, err := c.heldOfCloud(ctx, o)
	if err != nil {
		return nil, Given{Silent: err}
	}
	for _, h := range held {
		s.Details = append(s.Details, h.String())
	}
	s.Run = func(ctx context.Context, p plan.Progress) error {
		client, err := c.Kube(ctx)
		if err != nil {
			return err
		}
		o.Status = p.Status
		return client.FreeCloudResources(ctx, o)
	}
	return s, Given{Held: held}
}

// heldOfCloud asks the cluster's API for its resources in the cloud.
func (c *Removal) heldOfCloud(ctx context.Context, o kube.FreeOptions) ([]kube.CloudResource, error) {
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	return client.CloudResources(ctx, o)
}
