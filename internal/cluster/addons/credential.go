package addons

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// CredentialStep is the ID of the step that creates the restricted cloud credential.
const CredentialStep = "cloud/credential" //nolint:gosec // a name

// KeepCredential stores the restricted cloud credential among the cluster's secrets.
func (c *Addons) KeepCredential(ctx context.Context, cred provider.CloudCredential) error {
	data, err := json.Marshal(cred) //nolint:gosec // the destination is encrypted
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the credential of the cloud")
	}
	return c.Secrets.Put(ctx, observe.SecretCredential, data)
}

// TellReach notes once, when a credential is created, that it reaches farther than the cluster needs; CheckCredential reports it later.
func TellReach(cred provider.CloudCredential, p plan.Progress) {
	if n, ok := p.(plan.Noter); ok && cred.Reach != "" {
		n.Note("the cluster's credential gives access to the whole project: %s", cred.Reach)
	}
}

// CheckCredential checks what the cluster's restricted credential permits. It returns no check if there is no credential.
func (c *Addons) CheckCredential(ctx context.Context) ([]provider.Check, error) {
	cred, err := c.Credential(ctx)
	if err != nil || cred == nil || c.Cloud() == nil {
		return nil, err
	}
	check := provider.Check{Name: "credential of the cloud", Result: provider.Fine, Detail: "allows only the calls that the cluster makes"}
	if !cred.Bounded {
		check.Result = provider.Warning
		check.Detail = "it gives access to the whole project: " + cmp.Or(cred.Reach, "it was created without access rules") +
			"; naupegos certs rotate " + c.Name() + " --cloud-credential creates a new one"
	}
	return []provider.Check{check}, nil
}

// CloudsYAML renders a clouds.yaml to hand over, with a new credential that expires at until. It returns fail.NotFound if the cluster is not on a
// cloud.
func (c *Addons) CloudsYAML(ctx context.Context, until time.Time) ([]byte, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, fail.New(fail.NotFound, "cluster %s is on no cloud", c.Name())
	}
	cred, err := cloud.PeopleCredential(ctx, until)
	if err != nil {
		return nil, err
	}
	return cred.CloudsYAML(c.Name(), handover.CloudCAFile)
}

// PlanRotateCredential plans a new cloud credential for the cluster's controllers, its use, and the deletion of the old one. A non-empty unbounded is
// the reason for creating it without access rules.
func (c *Addons) PlanRotateCredential(ctx context.Context, unbounded string) (*plan.Plan, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no credential of a cloud", c.Name()).Do("only clusters on OpenStack have one")
	}
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	if _, err := cloud.Home(ctx); err != nil { // the login shows which services the cloud has
		return nil, err
	}
	var graph plan.Graph
	graph.Add(stage.Prepare, &plan.Step{
		ID: CredentialStep, Action: plan.Replace, Subject: "cluster", Title: "create a new credential for the cluster", Reason: "as requested",
		Run: func(ctx context.Context, p plan.Progress) error {
			cred, err := cloud.NewCloudCredential(ctx, unbounded)
			if err != nil {
				return err
			}
			TellReach(cred, p)
			return c.KeepCredential(ctx, cred)
		},
	})
	for _, a := range c.CredentialUsers() {
		graph.Add(stage.Record, c.RenewStep(a), plan.IfPlanned(AddonID(addon.NameCloudConfig))...)
	}
	graph.Add(stage.Forget, c.PruneStep(cloud))
	steps, err := graph.Seal(stage.RotateRules)
	return &plan.Plan{Verb: "rotate", Cluster: c.Name(), Steps: steps}, err
}

// RenewStep gives an addon the cluster's new credential.
func (c *Addons) RenewStep(a addon.Addon) *plan.Step {
	s := c.AddonStep(a)
	s.Action, s.Title, s.Reason, s.Rolling = plan.Change, "renew "+a.Title, "it authenticates with the credential", len(a.Workloads) > 0
	return s
}

// PruneStep deletes the cluster's former credentials, once everything uses the new one.
func (c *Addons) PruneStep(cloud provider.CloudIntegration) *plan.Step {
	return &plan.Step{
		ID: "cloud/prune", Action: plan.Destroy, Subject: "cluster", Title: "delete the old credential", Reason: "everything uses the new one",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if err := c.waitAddons(ctx, client, p); err != nil {
				return err
			}
			cred, err := c.Credential(ctx)
			if err != nil || cred == nil {
				return err
			}
			_, err = cloud.PruneCloudCredentials(ctx, cred.ID)
			return err
		},
	}
}
