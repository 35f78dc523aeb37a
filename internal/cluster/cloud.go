package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

const (
	credentialStep = "cloud/credential" //nolint:gosec // a name

)

func (c *Cluster) keepCredential(ctx context.Context, cred provider.CloudCredential) error {
	data, err := json.Marshal(cred) //nolint:gosec // it is encrypted where it goes
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the credential of the cloud")
	}
	return c.Secrets.Put(ctx, observe.SecretCredential, data)
}

// tellReach tells once where a credential reaches farther than the cluster needs; checkCredential does so later.
func tellReach(cred provider.CloudCredential, p plan.Progress) {
	if n, ok := p.(plan.Noter); ok && cred.Reach != "" {
		n.Note("the cluster's credential gives access to the whole project: %s", cred.Reach)
	}
}

// checkCredential says what the cluster's credential is good for; nothing where it has none.
func (c *Cluster) checkCredential(ctx context.Context) ([]provider.Check, error) {
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

// planCredential gives the cluster a credential of its own, where it has none.
func (a *applying) planCredential() {
	cloud := a.Cloud()
	if cloud == nil {
		return
	}
	if cred, err := a.Credential(context.Background()); err == nil && cred != nil {
		return
	}
	a.add(stage.Prepare, &plan.Step{
		ID: credentialStep, Action: plan.Create, Subject: "cluster", Title: "create a restricted credential for the cluster",
		Reason: "nothing that runs in the cluster gets your own credential",
		Run: func(ctx context.Context, p plan.Progress) error {
			have, err := a.Credential(ctx)
			if err != nil {
				return err
			}
			cred, err := cloud.EnsureCloudCredential(ctx, have)
			if err != nil {
				return err
			}
			tellReach(cred, p)
			return a.keepCredential(ctx, cred)
		},
	})
}

// planInitialized has kube-proxy started, for the first time, on nodes that the cloud's controller has initialized already: it was
// seen to lose its nftables elements where a node got its zone seconds after kube-proxy's first rules (1.36.3). Machines that are there
// while others are changed may be gone before it looks.
func (a *applying) planInitialized() {
	if a.Cloud() == nil || a.o.Recorded {
		return
	}
	var names []string
	for _, s := range wanted.Own(a.o.Want) {
		if s.Role != provider.Gateway {
			names = append(names, s.Name)
		}
	}
	wait := a.Initialized(nodes.InitializedStep, "the nodes", "it sets their addresses and zones", names...)
	wait.Subject = "cluster"
	a.add(stage.Record, wait, plan.IfPlanned(addonID(addon.NameOpenStack))...)
}

// joined lists the steps that wait for a node that other nodes' pods are to go to. In a cloud it takes none before it is initialized.
func (a *applying) joined(s wanted.Slot, known bool) []*plan.Step {
	unit := []*plan.Step{a.NodeStep(s, known)}
	if a.Cloud() != nil && (!known || !a.o.Nodes[s.Name].Initialized()) {
		unit = append(unit, a.Initialized("cloud/node/"+s.Name, s.Name, "no pod comes to its node before", s.Name))
	}
	return unit
}

// planCloudSmoke proves once that the cloud gives the cluster load balancers and volumes, if it has any.
func (a *applying) planCloudSmoke() {
	cloud := a.Cloud()
	if cloud == nil || !a.wantsSmoke() || a.Facts.Is(memory.CloudSmoked) && !a.onlyTest() {
		return
	}
	s := &plan.Step{
		ID: "smoke/cloud", Action: plan.Wait, Subject: "cluster", Title: "smoke test: a Service gets a load balancer, a PersistentVolumeClaim a volume",
		Reason: "the cloud must provide what workloads request; both are deleted afterwards", Timeout: cloudSmokeTimeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			_, err := a.cloudSmoke(ctx, p)
			return err
		},
	}
	const serves = "the cloud must provide what workloads request; no "
	switch noBalancers, noVolumes := cloud.NoBalancing(), cloud.NoVolumes(); {
	case noBalancers != "" && noVolumes != "":
		return
	case noBalancers != "":
		s.Title, s.Reason = "smoke test: a PersistentVolumeClaim gets a volume", serves+"load balancer, because "+noBalancers
	case noVolumes != "":
		s.Title, s.Reason = "smoke test: a Service gets a load balancer", serves+"volume, because "+noVolumes
	}
	a.add(stage.Prove, s, plan.IfPlanned(smokeStep)...)
}

// cloudSmoke has the cloud serve the cluster, and says what it gave.
func (c *Cluster) cloudSmoke(ctx context.Context, p plan.Progress) (string, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	if err := c.waitAddons(ctx, client, p); err != nil {
		return "", err
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return "", err
	}
	o := kube.CloudSmokeOptions{Image: img.Ref, Status: p.Status, Ask: c.askBalancer}
	o.NoLoadBalancer, o.NoVolume = c.Cloud().NoBalancing() != "", c.Cloud().NoVolumes() != ""
	r, err := client.CloudSmoke(ctx, o)
	if err != nil {
		return "", err
	}
	var gave []string
	if !o.NoLoadBalancer {
		gave = append(gave, "load balancer at "+r.Address+", asked from "+r.Asked)
	}
	if !o.NoVolume {
		gave = append(gave, "volume")
	}
	return strings.Join(gave, "; "), c.Facts.Set(ctx, memory.CloudSmoked, "true")
}

// CloudsYAML renders a clouds.yaml to hand over, with a credential that is made for it and ends then. fail.NotFound where the cluster is on
// no cloud.
func (c *Cluster) CloudsYAML(ctx context.Context, until time.Time) ([]byte, error) {
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

// PlanRotateCredential makes another credential of the cloud for what runs in the cluster, puts it into use, and deletes the former.
// unbounded says why it shall have no access rules; empty: it shall.
func (c *Cluster) PlanRotateCredential(ctx context.Context, unbounded string) (*plan.Plan, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no credential of a cloud", c.Name()).Do("only clusters on OpenStack have one")
	}
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	if _, err := cloud.Home(ctx); err != nil { // what the cloud has is known once one is logged in
		return nil, err
	}
	var graph plan.Graph
	graph.Add(stage.Prepare, &plan.Step{
		ID: credentialStep, Action: plan.Replace, Subject: "cluster", Title: "create a new credential for the cluster", Reason: "as requested",
		Run: func(ctx context.Context, p plan.Progress) error {
			cred, err := cloud.NewCloudCredential(ctx, unbounded)
			if err != nil {
				return err
			}
			tellReach(cred, p)
			return c.keepCredential(ctx, cred)
		},
	})
	for _, a := range c.CloudAddonList() {
		s := c.addonStep(a)
		s.Action, s.Title, s.Reason, s.Rolling = plan.Change, "renew "+a.Title, "it authenticates with the credential", len(a.Workloads) > 0
		graph.Add(stage.Record, s, plan.IfPlanned(addonID(addon.NameCloudConfig))...)
	}
	graph.Add(stage.Forget, &plan.Step{
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
	})
	steps, err := graph.Seal(stage.RotateRules)
	return &plan.Plan{Verb: "rotate", Cluster: c.Name(), Steps: steps}, err
}
