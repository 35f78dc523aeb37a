package cluster

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// smokeTimeout bounds the smoke test with its repetitions.
const smokeTimeout = 3 * time.Minute

// cloudSmokeTimeout bounds the smoke test of the cloud, whose load balancers may take minutes.
const cloudSmokeTimeout = 15 * time.Minute

// planRecords records the cluster with kubeadm's own phases and installs the pod network. What should run on several nodes waits for those
// of the control plane. Workers are not waited for: one that never comes should not leave the others without cluster DNS.
func (a *applying) planRecords() {
	first := a.NamesOf(provider.ControlPlane)[0]
	a.planAddons()
	a.planInitialized()
	if a.o.Recorded && a.o.ProxyTimeoutsReverted {
		s := a.phaseStep(first, layout.InstallProxy())
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
		a.add(stage.Record, a.phaseStep(first, ph), needs...)
		all = append(all, phaseID(ph))
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

func phaseID(ph layout.Phase) string {
	return "kubeadm/" + strings.ReplaceAll(strings.ToLower(ph.Name), " ", "-")
}

// phaseStep runs one of kubeadm's phases on a control-plane machine.
func (c *Cluster) phaseStep(name string, ph layout.Phase) *plan.Step {
	return &plan.Step{
		ID: phaseID(ph), Action: plan.Create, Subject: "cluster", Title: ph.Name + " (kubeadm, on " + name + ")",
		Reason: "to other tools, the cluster is an ordinary kubeadm cluster",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			p.Status("kubeadm %s", strings.Join(ph.Argv[2:4], " "))
			out, err := c.Dialer.Run(ctx, h, nil, ph.Argv...)
			if err != nil || ph.Manifests == nil {
				return perhapsLater(err)
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

// unanswered are the words in which kubeadm says that the API, or etcd behind it, did not answer in time: those of Go's net packages, and of API servers.
// One that has just started knows no administrators yet.
var unanswered = regexp.MustCompile(`Client\.Timeout exceeded|TLS handshake timeout|context deadline exceeded|i/o timeout|connection (refused|reset by peer|lost)|unexpected EOF|` +
	`etcdserver: (request timed out|leader changed|no leader)|currently unable to handle the request|is forbidden: User "kubernetes-admin"`)

// perhapsLater has a phase of kubeadm run again that only an API kept from its end that is slow, or away for a moment: kubeadm waits for each
// answer for ten seconds, and goes over what is there already.
func perhapsLater(err error) error {
	var ended *remote.ExitError
	if !errors.As(err, &ended) || !unanswered.MatchString(ended.Stderr) {
		return err
	}
	return fail.Wrap(fail.NotReady, err, "the Kubernetes API did not answer kubeadm in time")
}

// admit lets administrators in: it must come before anything else that our own kubeconfig asks for.
func (c *Cluster) admit(ctx context.Context) error {
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

// admitted reports whether administrators may act by now: an API server learns of a new binding a moment after it was stored.
// It asks by the connection that the steps after it will use. fail.NotReady while they may not.
func (c *Cluster) admitted(ctx context.Context) error {
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

// planSmoke waits for cluster DNS and proves that a Service works, where anything changed that it depends on: machines that came or went
// were waited for one by one.
func (a *applying) planSmoke() {
	a.planCloudSmoke()
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
		ID: smokeStep, Action: plan.Wait, Subject: "cluster", Title: "smoke test: a Service answers by IP address and by DNS name",
		Reason: "the cluster is up once a workload is served", Timeout: smokeTimeout,
		Run: a.smoke,
	})
}

const smokeStep = "smoke"

// wantsSmoke reports whether there is something to prove and somewhere to prove it.
func (c *Cluster) wantsSmoke() bool {
	return *c.Doc.Spec.SmokeTest && (c.Doc.WorkerCount() > 0 || c.Doc.Spec.ControlPlane.Schedulable)
}

func (c *Cluster) smoke(ctx context.Context, p plan.Progress) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return err
	}
	if _, err = client.Smoke(ctx, kube.SmokeOptions{Image: img.Ref, DNSDomain: c.Doc.Spec.Kubernetes.DNSDomain, Status: p.Status}); err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.Smoked, "true")
}

// What clusters everywhere have of manifests of our own; the rest is the catalogue's.
const ()

func addonID(name string) string { return "addon/" + name }

// lacks reports whether an addon that is wanted is absent, or not as wanted.
func (a *applying) lacks(name string) bool {
	return !a.o.Addons[name] && slices.ContainsFunc(a.AddonList(), func(ad addon.Addon) bool { return ad.Name == name })
}

// planAddons installs what is absent or not as wanted.
func (a *applying) planAddons() {
	a.planCredential()
	for _, ad := range a.AddonList() {
		if a.o.Addons[ad.Name] {
			continue
		}
		var needs []plan.Need
		if ad.Name != observe.AddonApprover && ad.Name != observe.AddonFlannel {
			needs = plan.IfPlanned(credentialStep, addonID(addon.NameCloudConfig))
		}
		a.add(stage.Record, a.addonStep(ad), needs...)
	}
}

// addonStep applies the manifests of one addon.
func (c *Cluster) addonStep(a addon.Addon) *plan.Step {
	return &plan.Step{
		ID: addonID(a.Name), Action: plan.Create, Subject: "cluster", Title: "install " + a.Title, Reason: a.Reason,
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
			_, err = client.Apply(ctx, manifests, kube.ApplyOptions{Addon: a.Name, Prune: true})
			return err
		},
	}
}

// waitAddons waits until what addons run does.
func (c *Cluster) waitAddons(ctx context.Context, client *kube.Client, p plan.Progress) error {
	for _, a := range c.AddonList() {
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
