package cluster

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

// consentAbandon is what the user must consent to before a cluster is destroyed that can't be asked to give back what it took
// from the cloud.
const consentAbandon = "abandon-cloud-resources"

const freeTimeout = 20 * time.Minute

// planFree has the cluster give back to the cloud what it took from it, before its machines go, and deletes its credential.
func (c *Cluster) planFree(ctx context.Context, b *builder, opts DestroyOptions) {
	os := c.openStack()
	if os == nil {
		return
	}
	if c.facts.bootstrapped() {
		b.add(c.freeStep(ctx, opts))
	}
	s := &plan.Step{
		ID: "cloud/credentials", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster's credential of the cloud",
		Reason: "nothing uses it any more",
		Run: func(ctx context.Context, _ plan.Progress) error {
			_, err := os.PruneCloudCredentials(ctx)
			return err
		},
	}
	b.after(s, freeStepID)
	b.add(s)
}

const freeStepID = "cloud/free"

// freeStep asks the cluster to free what it holds of the cloud. Where it does not answer, only the user can say that this may
// be left out: then it is told what stays in the cloud.
func (c *Cluster) freeStep(ctx context.Context, opts DestroyOptions) *plan.Step {
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
		s.Title, s.Reason = "leave what the cluster made in the cloud", "the API does not answer: "+err.Error()
		s.Consent, s.Run = consentAbandon, c.tellLeftovers
		return s
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
	return s
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

// tellLeftovers names what stays in the cloud of a cluster that could not be asked.
func (c *Cluster) tellLeftovers(ctx context.Context, p plan.Progress) error {
	left, err := c.openStack().Leftovers(ctx)
	if err != nil {
		return err
	}
	for _, b := range left.LoadBalancers {
		p.Status("left in the cloud: %s", b)
	}
	for _, v := range left.Volumes {
		p.Status("left in the cloud: %s", v)
	}
	return nil
}

// PlanRotateCredential makes another credential of the cloud for what runs in the cluster, puts it into use, and deletes the former.
func (c *Cluster) PlanRotateCredential(context.Context) (*plan.Plan, error) {
	os := c.openStack()
	if os == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no credential of a cloud", c.Name()).Do("only clusters on OpenStack have one")
	}
	if !c.facts.bootstrapped() {
		return nil, errNotBootstrapped(c.Name())
	}
	b := newBuilder()
	b.add(&plan.Step{
		ID: credentialStep, Action: plan.Replace, Subject: "cluster", Title: "make another credential for the cluster", Reason: "you asked for it",
		Run: func(ctx context.Context, _ plan.Progress) error {
			cred, err := os.NewCloudCredential(ctx)
			if err != nil {
				return err
			}
			return c.keepCredential(ctx, cred)
		},
	})
	for _, a := range addon.OpenStackAddons() {
		s := c.addonStep(a)
		s.Action, s.Title, s.Reason, s.Rolling = plan.Change, "renew "+a.Title, "it signs in with the credential", len(a.Workloads) > 0
		b.after(s, credentialStep, addonID(addon.NameCloudConfig))
		b.add(s)
	}
	last := &plan.Step{
		ID: "cloud/prune", Action: plan.Destroy, Subject: "cluster", Title: "delete the former credential", Reason: "everything uses the new one",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if err := c.settleAddons(ctx, client, p); err != nil {
				return err
			}
			cred, err := c.credential(ctx)
			if err != nil || cred == nil {
				return err
			}
			_, err = os.PruneCloudCredentials(ctx, cred.ID)
			return err
		},
	}
	b.after(last, b.with("addon/")...)
	b.add(last)
	p := &plan.Plan{Verb: "rotate", Cluster: c.Name(), Steps: b.steps}
	return p, p.Check()
}
