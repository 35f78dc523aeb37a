package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planRecords records the cluster with kubeadm's own phases and installs the pod network. Workloads that should run on several nodes wait for the
// control plane's nodes. They do not wait for workers: a worker that never joins must not leave the others without cluster DNS.
func (a *applying) planRecords() {
	first := a.NamesOf(provider.ControlPlane)[0]
	a.planAddons()
	a.planInitialized()
	if a.o.Recorded && a.o.ProxyTimeoutsReverted {
		s := a.PhaseStep(first, layout.InstallProxy())
		s.Action, s.Rolling, s.Reason = plan.Change, true, "kubeadm has reset its timeouts: it would wait 45 s for an API server whose machine died"
		a.add(stage.Record, s)
	}
	if a.o.Recorded {
		return
	}
	var all []string
	for i, ph := range layout.Phases() {
		var needs []plan.Need
		if i > 0 {
			needs = append(plan.IfPlanned(nodes.InitializedStep), plan.After(all[0])...)
		}
		if ph.Spreads {
			needs = append(needs, plan.IfPlanned(nodes.IDsOf(nodes.NodeID, a.NamesOf(provider.ControlPlane))...)...)
		}
		a.add(stage.Record, a.PhaseStep(first, ph), needs...)
		all = append(all, addons.PhaseID(ph))
	}
	a.add(stage.Record, &plan.Step{
		ID: "kubeadm/recorded", Action: plan.Create, Subject: "cluster", Title: "remember the configuration that kubeadm has recorded",
		Reason: "so that later changes are noticed",
		Run: func(ctx context.Context, _ plan.Progress) error {
			p, err := a.KubeParams(ctx)
			if err != nil {
				return err
			}
			digest, err := observe.RecordDigest(p)
			if err != nil {
				return err
			}
			return a.Facts.Set(ctx, memory.Recorded, digest)
		},
	}, plan.After(all...)...)
}

// planSmoke waits for cluster DNS and proves that a Service works, where anything changed that it depends on: machines that came or went
// were waited for one by one.
func (a *applying) planSmoke() {
	a.planCloudSmoke()
	a.planSite()
	proven := (a.Facts.Is(memory.Smoked) || !a.wantsSmoke()) && !a.onlyTest()
	if proven && a.Facts.Bootstrapped() && a.o.Recorded && !a.o.ProxyTimeoutsReverted && !a.lacks(observe.AddonFlannel) {
		return
	}
	a.add(stage.Prove, &plan.Step{
		ID: "dns", Action: plan.Wait, Subject: "cluster", Title: "wait for cluster DNS", Reason: "pods find Services by DNS name",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := a.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for CoreDNS")
			return client.WaitDeployment(ctx, "kube-system", "coredns")
		},
	})
	if !a.wantsSmoke() {
		return
	}
	a.add(stage.Prove, &plan.Step{
		ID: addons.SmokeStep, Action: plan.Wait, Subject: "cluster", Title: "smoke test: a Service answers by IP address and by DNS name",
		Reason: "the cluster is up once a workload is served", Timeout: addons.SmokeTime(a.Doc),
		Run: a.Smoke,
	})
}

// wantsSmoke reports whether there is something to prove and somewhere to prove it.
func (c *Cluster) wantsSmoke() bool {
	return *c.Doc.Spec.SmokeTest && (c.Doc.WorkerCount() > 0 || c.Doc.Spec.ControlPlane.Schedulable)
}

// lacks reports whether an addon that is wanted is absent, or not as wanted.
func (a *applying) lacks(name string) bool {
	return !a.o.Addons[name] && slices.ContainsFunc(a.AddonList(), func(ad addon.Addon) bool { return ad.Name == name })
}

// planAddons installs addons that are absent or not as wanted.
func (a *applying) planAddons() {
	another := a.planCredential()
	users := a.CredentialUsers()
	uses := func(ad addon.Addon) bool {
		return slices.ContainsFunc(users, func(u addon.Addon) bool { return u.Name == ad.Name })
	}
	var renewed []string
	for _, ad := range a.AddonList() {
		if a.o.Addons[ad.Name] && !(another && uses(ad)) {
			continue
		}
		var needs []plan.Need
		if ad.Name != observe.AddonApprover && ad.Name != observe.AddonFlannel {
			needs = plan.IfPlanned(addons.CredentialStep, addons.AddonID(addon.NameCloudConfig))
		}
		needs = append(needs, plan.IfPlanned(a.definers(ad.Name)...)...)
		s, seen := a.AddonStep(ad), a.o.AddonFindings[ad.Name]
		s.Deltas = seen.Deltas
		addons.GiveUp(s, a.o.AddonLoses[ad.Name], a.o.AddonDefined[ad.Name])
		if seen.Known {
			s.Action, s.Title, s.Reason = plan.Change, "update "+ad.Title, "it is not as the document and the bundle say"
		}
		if another && a.o.Addons[ad.Name] {
			s = a.RenewStep(ad)
		}
		if another && uses(ad) {
			renewed = append(renewed, s.ID)
		}
		a.add(stage.Record, s, needs...)
	}
	if another {
		a.add(stage.Forget, a.PruneStep(a.Cloud()), plan.After(renewed...)...)
	}
	for _, s := range a.o.Surplus {
		a.add(stage.Record, a.RemoveAddonStep(s))
	}
}

// definers lists the steps that install definitions without which an addon of the document does not start.
func (a *applying) definers(name string) []string {
	t, cm, dns := a.Doc.Addon(addon.NameTraefik), a.Doc.Addon(addon.NameCertManager), a.Doc.Addon(addon.NameExternalDNS)
	needed := name == addon.NameCertManager && cm != nil && cm.CertManager.GatewayAPI ||
		name == addon.NameExternalDNS && dns != nil && slices.Contains(dns.ExternalDNS.Sources, v1alpha1.SourceHTTPRoute)
	if !needed || t == nil || !t.Traefik.GatewayAPI {
		return nil
	}
	return []string{addons.AddonID(addon.NameTraefik)}
}

// planSite waits for each addon of the document that has not been proven to work as installed now.
func (a *applying) planSite() {
	byPods := []string{addon.NameLocalPath, addon.NameMetalLB, addon.NameTraefik} // their proof starts a pod
	for _, ad := range addon.Site(a.Doc) {
		if a.o.Addons[ad.Name] && a.Facts.Of(memory.AddonWorks, ad.Name) == "true" {
			continue
		}
		if a.wantsSmoke() || !slices.Contains(byPods, ad.Name) {
			a.add(stage.Prove, a.WorksStep(ad))
		}
	}
}
