package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planCredential gives the cluster a restricted credential of its own if it has none, and another one if its access rules no longer fit the document. Then
// it returns true: all addons that use the credential get the new one.
func (a *applying) planCredential() (another bool) {
	cloud := a.Cloud()
	if cloud == nil {
		return false
	}
	s := &plan.Step{
		ID: addons.CredentialStep, Action: plan.Create, Subject: "cluster", Title: "create a restricted credential for the cluster",
		Reason: "nothing that runs in the cluster gets your own credential",
		Run: func(ctx context.Context, p plan.Progress) error {
			have, err := a.Credential(ctx)
			if err != nil {
				return err
			}
			if have != nil && a.outgrown(*have) != "" {
				have = nil
			}
			cred, err := cloud.EnsureCloudCredential(ctx, have)
			if err != nil {
				return err
			}
			addons.TellReach(cred, p)
			return a.KeepCredential(ctx, cred)
		},
	}
	if cred, err := a.Credential(context.Background()); err == nil && cred != nil {
		if s.Reason = a.outgrown(*cred); s.Reason == "" {
			return false
		}
		s.Action, s.Title, another = plan.Replace, "create a new credential for the cluster", true
	}
	a.add(stage.Prepare, s)
	return another
}

// outgrown returns why the access rules of the cluster's credential do not fit the document; empty if they do, or if it has none.
func (a *applying) outgrown(cred provider.CloudCredential) string {
	switch {
	case !cred.Bounded || cred.DNS == a.Doc.UsesDesignate():
		return ""
	case cred.DNS:
		return "nothing writes to Designate with it any more"
	}
	return "external-dns writes to Designate with it"
}

// planInitialized starts kube-proxy for the first time only on nodes that the cloud's controller has initialized: kube-proxy was seen to lose its
// nftables elements when a node got its zone seconds after kube-proxy's first rules (1.36.3). A machine can disappear before the check if other
// machines change at the same time.
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
	a.add(stage.Record, wait, plan.IfPlanned(addons.AddonID(addon.NameOpenStack))...)
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
		Reason: "the cloud must provide what workloads request; both are deleted afterwards", Timeout: addons.CloudSmokeTime(a.Doc),
		Run: func(ctx context.Context, p plan.Progress) error {
			_, err := a.CloudSmoke(ctx, p)
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
	a.add(stage.Prove, s, plan.IfPlanned(addons.SmokeStep)...)
}
