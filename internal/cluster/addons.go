package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
)

// What clusters everywhere have of manifests of our own; the rest is the catalogue's.
const (
	addonApprover = "naupegos-approver"
	addonFlannel  = "flannel"
)

// addonList lists what is installed by manifests, in that order, without the manifests.
func (c *Cluster) addonList() []addon.Addon {
	list := []addon.Addon{{
		Name: addonApprover, Title: "the rights of the certificate approver",
		Reason: "kubelets' serving certificates are approved after a check of the machine",
	}}
	if c.doc.Spec.Kubernetes.CNI != layout.CNINone {
		list = append(list, addon.Addon{
			Name: addonFlannel, Title: "the pod network (flannel)", Reason: "pods on different nodes reach each other through it",
		})
	}
	return append(list, c.cloudAddonList()...)
}

// manifests renders one of addonList; nil for those of a cloud as long as the cluster has no credential.
func (c *Cluster) manifests(ctx context.Context, p layout.Params, name string) ([]byte, error) {
	switch name {
	case addonApprover:
		return layout.ApproverManifest(), nil
	case addonFlannel:
		return p.Flannel()
	}
	cloud, err := c.cloudAddons(ctx, p)
	return cloud[name], err
}

func addonID(name string) string { return "addon/" + name }

// lacks reports whether an addon that is wanted is absent, or not as wanted.
func (a *applying) lacks(name string) bool {
	return !a.o.Addons[name] && slices.ContainsFunc(a.addonList(), func(ad addon.Addon) bool { return ad.Name == name })
}

// planAddons installs what is absent or not as wanted.
func (a *applying) planAddons() {
	a.planCredential()
	for _, ad := range a.addonList() {
		if a.o.Addons[ad.Name] {
			continue
		}
		var needs []plan.Need
		if ad.Name != addonApprover && ad.Name != addonFlannel {
			needs = plan.IfPlanned(credentialStep, addonID(addon.NameCloudConfig))
		}
		a.add(stageRecord, a.addonStep(ad), needs...)
	}
}

// addonStep applies the manifests of one addon.
func (c *Cluster) addonStep(a addon.Addon) *plan.Step {
	return &plan.Step{
		ID: addonID(a.Name), Action: plan.Create, Subject: "cluster", Title: "install " + a.Title, Reason: a.Reason,
		Run: func(ctx context.Context, _ plan.Progress) error {
			p, err := c.kubeParams(ctx)
			if err != nil {
				return err
			}
			manifests, err := c.manifests(ctx, p, a.Name)
			if err != nil {
				return err
			}
			if manifests == nil {
				return fail.New(fail.NotReady, "the cluster has no credential of the cloud yet")
			}
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, manifests, kube.ApplyOptions{Addon: a.Name, Prune: true})
			return err
		},
	}
}

// waitAddons waits until what addons run does.
func (c *Cluster) waitAddons(ctx context.Context, client *kube.Client, p plan.Progress) error {
	for _, a := range c.addonList() {
		for _, w := range a.Workloads {
			p.Status("waiting for %s", w.Name)
			wait := client.WaitDeployment
			if w.Kind == "DaemonSet" {
				wait = client.WaitDaemonSet
			}
			if err := wait(ctx, addon.Namespace, w.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
