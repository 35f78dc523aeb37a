// Package addons applies what every cluster contains from the start: kubeadm's records, addons and the cloud's credential. It also proves that
// the cluster works.
package addons

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/remote"
)

// Addons applies and checks the addons of a cluster.
type Addons struct {
	*backups.Keeper
}

// PhaseID is the ID of the step that runs a phase of kubeadm.
func PhaseID(ph layout.Phase) string {
	return "kubeadm/" + strings.ReplaceAll(strings.ToLower(ph.Name), " ", "-")
}

// PhaseStep runs one of kubeadm's phases on a control-plane machine.
func (c *Addons) PhaseStep(name string, ph layout.Phase) *plan.Step {
	return &plan.Step{
		ID: PhaseID(ph), Action: plan.Create, Subject: "cluster", Title: ph.Name + " (kubeadm, on " + name + ")",
		Reason: "to other tools, the cluster is an ordinary kubeadm cluster",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			p.Status("kubeadm %s", strings.Join(ph.Argv[2:4], " "))
			out, err := c.Dialer.Run(ctx, h, nil, ph.Argv...)
			if err != nil || ph.Manifests == nil {
				return PerhapsLater(err)
			}
			manifests, err := ph.Manifests(out)
			if err != nil {
				return err
			}
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, manifests, kube.ApplyOptions{})
			return err
		},
	}
}

// unanswered matches kubeadm's errors for an API, or an etcd behind it, that did not answer in time: messages of Go's net packages and of API
// servers. It also matches the refusal of an API server that has just started and does not know its administrators yet.
var unanswered = regexp.MustCompile(`Client\.Timeout exceeded|TLS handshake timeout|context deadline exceeded|i/o timeout|connection (refused|reset by peer|lost)|unexpected EOF|` +
	`etcdserver: (request timed out|leader changed|no leader)|currently unable to handle the request|is forbidden: User "kubernetes-admin"`)

// PerhapsLater makes the failure of a kubeadm phase retryable if a slow or absent API caused it: kubeadm waits only ten seconds for an answer, and
// skips what already exists.
func PerhapsLater(err error) error {
	var ended *remote.ExitError
	if !errors.As(err, &ended) || !unanswered.MatchString(ended.Stderr) {
		return err
	}
	return fail.Wrap(fail.NotReady, err, "the Kubernetes API did not answer kubeadm in time")
}

// Admit gives administrators their rights. It must run before anything else that uses our own kubeconfig.
func (c *Addons) Admit(ctx context.Context) error {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return err
	}
	conf, err := layout.Params{ClusterName: c.Name()}.SuperAdminKubeconfig(ctx, c.PKI, endpoint)
	if err != nil {
		return err
	}
	client, err := kube.NewClient(conf, kube.ClientOptions{Dial: c.DialAPI})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.WaitReady(ctx); err != nil {
		return err
	}
	if _, err = client.Apply(ctx, []byte(layout.AdminsBinding), kube.ApplyOptions{}); err != nil {
		return err
	}
	return c.admitted(ctx)
}

// admitted returns fail.NotReady until administrators have their rights: an API server learns of a new binding shortly after it is stored. It uses
// the same connection as the following steps.
func (c *Addons) admitted(ctx context.Context) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	_, err = client.Nodes(ctx)
	if fail.KindOf(err) == fail.Unauthorized {
		return fail.Wrap(fail.NotReady, err, "wait until the API server knows its administrators")
	}
	return err
}

// AddonID is the ID of the step that installs an addon.
func AddonID(name string) string { return "addon/" + name }

// AddonStep applies the manifests of one addon.
func (c *Addons) AddonStep(a addon.Addon) *plan.Step {
	o := c.AddonOptions(a.Name)
	return &plan.Step{
		ID: AddonID(a.Name), Action: plan.Create, Subject: "cluster", Title: "install " + a.Title, Reason: a.Reason, Apart: o.Shared, // the cluster works without it
		Run: func(ctx context.Context, _ plan.Progress) error {
			p, err := c.KubeParams(ctx)
			if err != nil {
				return err
			}
			manifests, err := c.Manifests(ctx, p, a.Name)
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
			if err := c.Facts.SetOf(ctx, memory.AddonWorks, a.Name, ""); err != nil {
				return err
			}
			if a.Name == addon.NameMetalLB {
				if err := c.poolsApart(ctx); err != nil {
					return err
				}
			}
			if a.Name == addon.NameBindings {
				if err := c.makeNamespaces(ctx, client); err != nil {
					return err
				}
			}
			all, err := manifest.Parse(manifests)
			if err != nil {
				return err
			}
			if o.Shared {
				if err := client.Foresee(ctx, all, o); err != nil {
					return err
				}
			}
			_, err = client.ApplyObjects(ctx, all, o)
			return err
		},
	}
}

// waitAddons waits until the workloads of the addons that use the cloud's credential are available.
func (c *Addons) waitAddons(ctx context.Context, client *kube.Client, p plan.Progress) error {
	for _, a := range c.CredentialUsers() {
		if err := waitWorkloads(ctx, client, a, p); err != nil {
			return err
		}
	}
	return nil
}

// waitWorkloads waits until the workloads of an addon are available.
func waitWorkloads(ctx context.Context, client *kube.Client, a addon.Addon, p plan.Progress) error {
	for _, w := range a.Workloads {
		p.Status("waiting for %s", w.Name)
		if err := kube.WaitWorkload(ctx, client, w.Kind, cmp.Or(w.In, addon.Namespace), w.Name); err != nil {
			return err
		}
	}
	return nil
}
