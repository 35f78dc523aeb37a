package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

const freeTimeout = 20 * time.Minute

// given is what the cluster gives back to the cloud by itself.
type given struct {
	held   []kube.CloudResource
	silent error // why a cluster that is up can't be asked
}

// holds reports whether the cluster gives back a volume, or the load balancer of a Service, "namespace/name".
func (g given) holds(volume, service string) bool {
	return slices.ContainsFunc(g.held, func(r kube.CloudResource) bool {
		return volume != "" && r.Volume == volume || service != "" && r.Kind == "Service" && r.Namespace+"/"+r.Name == service
	})
}

// planFree has the cluster give back to the cloud what it took from it, before its machines go, and deletes its credential.
func (c *Cluster) planFree(ctx context.Context, graph *plan.Graph, opts DestroyOptions) given {
	cloud := c.cloud()
	if cloud == nil {
		return given{}
	}
	var g given
	if c.facts.Bootstrapped() {
		var free *plan.Step
		if free, g = c.freeStep(ctx, opts); g.silent == nil {
			graph.Add(stageFree, free)
		}
	}
	graph.Add(stageFree, &plan.Step{
		ID: "cloud/credentials", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster's credential of the cloud",
		Reason: "nothing uses it any more",
		Run: func(ctx context.Context, _ plan.Progress) error {
			_, err := cloud.PruneCloudCredentials(ctx)
			return err
		},
	}, plan.IfPlanned(freeStepID)...)
	return g
}

// planLeftovers removes, once the machines are gone, what the cluster made in the cloud and did not give back: all of it, where it could
// not be asked to. What it does not hold any more, such as a volume whose PersistentVolume somebody deleted, is named here.
func (c *Cluster) planLeftovers(ctx context.Context, steps []*plan.Step, machines []provider.Machine, g given, opts DestroyOptions) ([]*plan.Step, error) {
	cloud := c.cloud()
	if cloud == nil {
		return steps, nil
	}
	all, err := cloud.Leftovers(ctx)
	if err != nil {
		return nil, err
	}
	left := cloud.FreeLeftovers(all, opts.KeepVolumes)
	for _, m := range machines {
		left.Needs = append(left.Needs, provider.DestroyStep(m.Name))
	}
	left.Details = leftoverNames(all, g, opts.KeepVolumes)
	switch {
	case g.silent != nil:
		left.Reason = "the cluster can't be asked to, for its API does not answer: " + g.silent.Error()
	case len(left.Details) > 0:
		left.Reason = "the cluster does not give it back by itself"
	}
	for i, s := range steps {
		if s.ID == provider.DestroyNetworkStep {
			s.Needs = append(s.Needs, left.ID)
			return slices.Insert(steps, i, left), nil
		}
	}
	return append(steps, left), nil
}

// leftoverNames names what the cluster made in the cloud and does not give back.
func leftoverNames(all provider.Leftovers, g given, keepVolumes bool) []string {
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

// KeptVolumes names the volumes of claims that are still in the cloud, once the cluster is gone.
func (c *Cluster) KeptVolumes(ctx context.Context) ([]string, error) {
	cloud := c.cloud()
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

const freeStepID = "cloud/free"

// freeStep asks the cluster to free what it holds of the cloud.
func (c *Cluster) freeStep(ctx context.Context, opts DestroyOptions) (*plan.Step, given) {
	o := kube.FreeOptions{KeepVolumes: opts.KeepVolumes, Timeout: freeTimeout}
	s := &plan.Step{
		ID: freeStepID, Action: plan.Destroy, Subject: "cluster", Title: "give load balancers and volumes back to the cloud",
		Reason: "the cluster made them for Services and claims", Timeout: freeTimeout,
	}
	if opts.KeepVolumes {
		s.Title, s.Reason = "give load balancers back to the cloud", "volumes are to be kept"
	}
	held, err := c.heldOfCloud(ctx, o)
	if err != nil {
		return nil, given{silent: err}
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
	return s, given{held: held}
}

// heldOfCloud lists what the cluster holds of the cloud, as its API says.
func (c *Cluster) heldOfCloud(ctx context.Context, o kube.FreeOptions) ([]kube.CloudResource, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	return client.CloudResources(ctx, o)
}

// PlanRotateCredential makes another credential of the cloud for what runs in the cluster, puts it into use, and deletes the former.
func (c *Cluster) PlanRotateCredential(ctx context.Context) (*plan.Plan, error) {
	cloud := c.cloud()
	if cloud == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no credential of a cloud", c.Name()).Do("only clusters on OpenStack have one")
	}
	if !c.facts.Bootstrapped() {
		return nil, errNotBootstrapped(c.Name())
	}
	if _, err := cloud.Home(ctx); err != nil { // what the cloud has is known once one is logged in
		return nil, err
	}
	var graph plan.Graph
	graph.Add(stagePrepare, &plan.Step{
		ID: credentialStep, Action: plan.Replace, Subject: "cluster", Title: "make another credential for the cluster", Reason: "you asked for it",
		Run: func(ctx context.Context, _ plan.Progress) error {
			cred, err := cloud.NewCloudCredential(ctx)
			if err != nil {
				return err
			}
			return c.keepCredential(ctx, cred)
		},
	})
	for _, a := range c.cloudAddonList() {
		s := c.addonStep(a)
		s.Action, s.Title, s.Reason, s.Rolling = plan.Change, "renew "+a.Title, "it signs in with the credential", len(a.Workloads) > 0
		graph.Add(stageRecord, s, plan.IfPlanned(addonID(addon.NameCloudConfig))...)
	}
	graph.Add(stageForget, &plan.Step{
		ID: "cloud/prune", Action: plan.Destroy, Subject: "cluster", Title: "delete the former credential", Reason: "everything uses the new one",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if err := c.waitAddons(ctx, client, p); err != nil {
				return err
			}
			cred, err := c.credential(ctx)
			if err != nil || cred == nil {
				return err
			}
			_, err = cloud.PruneCloudCredentials(ctx, cred.ID)
			return err
		},
	})
	steps, err := graph.Seal(rotateRules)
	return &plan.Plan{Verb: "rotate", Cluster: c.Name(), Steps: steps}, err
}

// rotateRules say in which order the cloud's credential is renewed.
var rotateRules = []plan.Rule{
	{Stage: stagePrepare}, {Stage: stageRecord, Waits: []plan.Stage{stagePrepare}}, {Stage: stageForget, Waits: []plan.Stage{stageRecord}},
}
