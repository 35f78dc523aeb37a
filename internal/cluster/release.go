package cluster

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// A release leaves an ordinary kubeadm cluster to its owner and forgets it. First, the machines lose what only Naupegos uses, by a change of
// their configuration that restarts nothing; then each agent forgets its machine; the record is removed last.

// ReleaseOptions selects what a release leaves behind.
type ReleaseOptions struct {
	HandOver func(context.Context) error // writes all that the owner needs, before anything changes
	Forget   func(context.Context) error // runs last
}

// BeginRelease remembers, before the first step of a release that was agreed to, that it is begun.
func (c *Cluster) BeginRelease(ctx context.Context) error {
	return c.Facts.Set(ctx, memory.Releasing, "true")
}

// PlanRelease leaves a plain cluster of kubeadm's on hosts given by address, and forgets it.
func (c *Cluster) PlanRelease(ctx context.Context, opts ReleaseOptions) (*plan.Plan, error) {
	if err := c.releasable(ctx); err != nil {
		return nil, err
	}
	c.Bare = true
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := c.releaseSteps(o, opts)
	return &plan.Plan{Verb: "release", Cluster: c.Name(), Steps: steps}, err
}

// releasable refuses to release machines that Naupegos created, and a cluster that is changing.
func (c *Cluster) releasable(ctx context.Context) error {
	name := c.Name()
	switch {
	case !c.Prov.Traits().Given:
		return c.errOurOwn()
	case !c.Facts.Bootstrapped():
		return env.ErrNotBootstrapped(name)
	case c.Facts.Is(memory.Resetting):
		return c.ErrResetting()
	case c.Releasing(): // it was at rest when that began
		return nil
	case c.RotationNote() != "":
		return fail.New(fail.Refused, "keys of cluster %s are being rotated (%s)", name, c.RotationNote())
	case c.SoakNote() != "":
		return fail.New(fail.Refused, "cluster %s is in the middle of an upgrade: %s", name, c.SoakNote())
	}
	ap, err := c.PlanApply(ctx)
	if err == nil {
		err = c.nothingElse(ap, "", staged.NoStep)
	}
	if err == nil && ap.More {
		err = fail.Wrap(fail.NotReady, cmp.Or(ap.Observed.APIErr, ap.Observed.EtcdErr), "cluster %s can't be seen as a whole", name).
			Do("naupegos apply repairs it; then release it")
	}
	return err
}

func (c *Cluster) errOurOwn() error {
	return fail.New(fail.Refused, "the machines of cluster %s are Naupegos' own: without it they would not start again, and their files would be lost", c.Name()).
		Do("only clusters on hosts given by address are released; naupegos handover gives others what they need to use this one")
}

func (c *Cluster) releaseSteps(o *observe.Observed, opts ReleaseOptions) ([]*plan.Step, error) {
	var graph plan.Graph
	graph.Add(stage.Prepare, &plan.Step{
		ID: "hand-over", Action: plan.Create, Subject: "cluster", Title: "write the handover, with authorities and keys", Reason: "Naupegos deletes its own copies",
		Run: func(ctx context.Context, _ plan.Progress) error { return opts.HandOver(ctx) },
	})
	var others []string
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		forgotten := c.Facts.Of(memory.Released, s.Name) != "" // its agent would take the cluster there for a foreign one
		switch {
		case seen == nil || seen.Machine.State != provider.Running || !forgotten && (seen.Err != nil || seen.Report == nil):
			return nil, fail.New(fail.Refused, "release: %s can't be let go: %s", s.Name, observe.ReasonFor(seen, false)).Do("start it, or remove it from the document and apply")
		case !forgotten && observe.Disruptive(seen.Report):
			return nil, fail.New(fail.Refused, "release: servers on %s would restart: %s", s.Name, strings.Join(observe.Details(seen), "; ")).Do("naupegos apply first")
		case !forgotten && !seen.UpToDate():
			graph.Add(stage.Workers, c.ConfigureStep(s, plan.Change, "what only Naupegos uses is removed", seen))
		}
		if s.Role != provider.Gateway {
			graph.Add(stage.Clean, c.letAgentForget(s))
			others = append(others, letGoID(s.Name))
		}
	}
	for _, s := range o.Want { // other machines are reached through gateways
		if s.Role == provider.Gateway {
			graph.Add(stage.Clean, c.letAgentForget(s), plan.After(others...)...)
		}
	}
	graph.Add(stage.Record, &plan.Step{
		ID: "addon/delete/" + observe.AddonApprover, Action: plan.Destroy, Subject: "cluster", Title: "delete the RBAC objects of the certificate approver",
		Reason: "it no longer approves kubelets' serving certificates; kubectl certificate approve does",
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			return client.Delete(ctx, layout.ApproverManifest(), kube.ApplyOptions{Addon: observe.AddonApprover})
		},
	})
	if c.Facts.Get(memory.BackupLaid) != "" {
		graph.Add(stage.Record, c.TakeOrderStep("machines no longer make backups"))
	}
	graph.Add(stage.Forget, &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster and its keys from the store", Reason: "the cluster runs on without Naupegos",
		Run: func(ctx context.Context, _ plan.Progress) error { return opts.Forget(ctx) },
	})
	return graph.Seal(stage.ReleaseRules)
}

func letGoID(name string) string { return "release/" + name }

// letAgentForget releases one machine to its owner. The agent stays where the relay between gateways or the registry inside the cluster runs it; elsewhere the agent is removed.
func (c *Cluster) letAgentForget(s wanted.Slot) *plan.Step {
	args := []string{"release"}
	step := &plan.Step{
		ID: letGoID(s.Name), Action: plan.Change, Subject: s.Name, Title: "release " + s.Name + " to its owner",
		Reason:  "programs, units and files stay and keep running; the agent and its records are removed",
		Details: []string{"programs become files of their own", "files that Naupegos replaced are restored beside the new ones, as NAME.before-naupegos"},
	}
	if s.IsControlPlane() && wanted.Relayed(c.Known()) || slices.Contains(c.ImageServers(), s.Name) {
		args = append(args, "--keep-agent")
		step.Reason = "programs, units and files stay and keep running; the agent stays: the relay between gateways or the registry inside the cluster runs it"
	}
	step.Run = func(ctx context.Context, _ plan.Progress) error {
		if err := c.Facts.SetOf(ctx, memory.Released, s.Name, "true"); err != nil { // from now on the agent's memory does not count
			return err
		}
		h, err := c.Host(ctx, s.Name)
		if err == nil {
			_, err = c.Dialer.Agent(ctx, h, nil, args...)
		}
		return err
	}
	return step
}

// HandoverOptions selects what a handover contains beyond the files of every cluster.
type HandoverOptions struct {
	// CloudsYAML returns a clouds.yaml with a credential that expires at the given time. It is nil, or returns nil or fail.NotFound, if there is
	// no cloud.
	CloudsYAML func(ctx context.Context, until time.Time) ([]byte, error)
	// CloudCA returns the authorities that sign the cloud's certificate, as PEM. It is nil, or returns nothing, if the system's authorities do.
	CloudCA func(ctx context.Context) ([]byte, error)
	Now     time.Time // for the README
	Release bool      // Naupegos forgets the cluster: its authorities and document are handed over, too
}

// Handover returns the files that a new owner of the cluster needs, by slash-separated names. Most hold secrets.
// It returns fail.Refused if the cluster never came up, and with Release if Naupegos created its machines.
func (c *Cluster) Handover(ctx context.Context, o HandoverOptions) (map[string][]byte, error) {
	switch {
	case o.Release && !c.Prov.Traits().Given:
		return nil, c.errOurOwn()
	case !c.Facts.Bootstrapped():
		return nil, fail.New(fail.Refused, "cluster %s has not come up yet: there is nothing to hand over", c.Name()).Do("naupegos apply first")
	}
	files := map[string][]byte{}
	var err error
	if files[handover.KubeconfigFile], err = c.Kubeconfig(ctx); err != nil {
		return nil, err
	}
	if err := c.handOverSSH(ctx, files); err != nil {
		return nil, err
	}
	clients, err := c.WireGuardClients(ctx)
	if err != nil {
		return nil, err
	}
	for name, data := range clients {
		files[path.Join(handover.WireGuardDir, name)] = data
	}
	certs, err := c.Certificates(ctx)
	if err != nil {
		return nil, err
	}
	expiries := handover.Expiries(certs)
	if err := o.cloud(ctx, files, handover.UsedUntil(expiries)); err != nil {
		return nil, err
	}
	if o.Release {
		files[handover.DocumentFile] = c.Record.Document
		if err := c.addPKI(ctx, files); err != nil {
			return nil, err
		}
	}
	files[handover.ReadmeFile], err = c.handoverText(ctx, files, expiries, o)
	return files, err
}

// cloud adds a credential of the cluster's cloud that expires with the kubeconfig; nothing outside of a cloud.
func (o HandoverOptions) cloud(ctx context.Context, files map[string][]byte, until time.Time) error {
	add := func(name string, data []byte, err error) error {
		if err == nil && len(data) > 0 {
			files[name] = data
		}
		if fail.KindOf(err) == fail.NotFound {
			return nil
		}
		return err
	}
	if o.CloudCA != nil {
		data, err := o.CloudCA(ctx)
		if err := add(handover.CloudCAFile, data, err); err != nil {
			return err
		}
	}
	if o.CloudsYAML == nil {
		return nil
	}
	data, err := o.CloudsYAML(ctx, until) // last, because it creates a credential
	return add(handover.CloudsFile, data, err)
}

// handOverSSH adds ssh's configuration, with paths that stay valid if the directory moves, and the cluster's key. It leaves out the user's own
// key for hosts given by address.
func (c *Cluster) handOverSSH(ctx context.Context, files map[string][]byte) error {
	hs, err := c.Hosts(ctx)
	if err != nil {
		return err
	}
	files[handover.SSHConfigFile] = remote.SSHConfig(hs, handover.KeyFile, handover.KnownHostsFile)
	files[handover.KnownHostsFile] = remote.KnownHosts(hs)
	if c.Prov.Traits().Given {
		return nil
	}
	if files[handover.KeyFile], err = c.PKI.SSHKey(ctx); err != nil {
		return err
	}
	files[handover.KeyFile+".pub"] = []byte(strings.TrimSpace(c.PublicKeys[0]) + "\n")
	return nil
}

func (c *Cluster) handoverText(ctx context.Context, files map[string][]byte, expiries []handover.Expiry, o HandoverOptions) ([]byte, error) {
	v := handover.Readme{
		Name: c.Name(), ID: c.Record.ID, Provider: c.Doc.Spec.Provider.Name(), Kubernetes: c.Doc.Spec.Kubernetes.Version, Made: o.Now,
		Expiries: expiries, Released: o.Release,
	}
	var err error
	if v.Endpoint, err = c.PublicEndpoint(ctx); err != nil {
		return nil, err
	}
	if v.Machines, err = c.Addresses(ctx); err != nil {
		return nil, err
	}
	if names := c.NamesOf(provider.ControlPlane); len(names) > 0 {
		v.Example = names[0]
	}
	if w := c.Doc.Spec.Access.WireGuard; w != nil {
		for _, p := range w.Peers {
			if p.PublicKey != "" {
				v.OwnKeys = append(v.OwnKeys, p.Name)
			}
		}
	}
	return v.Render(files)
}

// addPKI adds the authorities and keys that a cluster is, in kubeadm's names.
func (c *Cluster) addPKI(ctx context.Context, files map[string][]byte) error {
	for name, base := range map[string]string{pki.KubernetesCA: "ca", pki.FrontProxyCA: "front-proxy-ca", pki.EtcdCA: "etcd/ca"} {
		pair, err := c.PKI.Authority(ctx, name)
		if err != nil {
			return err
		}
		files[path.Join(handover.PKIDir, base+".crt")] = pair.CertPEM
		if len(pair.KeyPEM) > 0 {
			files[path.Join(handover.PKIDir, base+".key")] = pair.KeyPEM
		}
	}
	signing, public, err := c.PKI.ServiceAccountKey(ctx)
	files[path.Join(handover.PKIDir, "sa.key")], files[path.Join(handover.PKIDir, "sa.pub")] = signing, public
	return err
}

// An import takes over a cluster that another tool created. The record contains the result of reading it from the user's agreement on. Each agent
// then records that its machine is ours. The last fact is that the API has answered, which all other work on the cluster requires.

// ImportOptions are the inputs of an import.
type ImportOptions struct {
	Lost    []string                                  // settings that the first apply takes away
	Changed func(ctx context.Context) (string, error) // describes changes of what runs since the import began
}

// ConsentLost is the consent to take a cluster over without the settings that no document can hold.
const ConsentLost = "lose-settings"

// PlanImport takes a cluster over that another tool created.
func (c *Cluster) PlanImport(opts ImportOptions) (*plan.Plan, error) {
	var graph plan.Graph
	for _, m := range c.Doc.Machines() {
		graph.Add(stage.Workers, c.takeOver(m, opts.Lost))
	}
	graph.Add(stage.Prove, &plan.Step{
		ID: "import/unchanged", Action: plan.Wait, Subject: "cluster", Title: "verify that nothing has changed",
		Reason: "kubelet, containerd and what they start must be the same as before",
		Run: func(ctx context.Context, _ plan.Progress) error {
			words, err := opts.Changed(ctx)
			if err == nil && words != "" {
				err = fail.New(fail.Refused, "%s, while the cluster was taken over", words).Do("find out the cause; the same command starts over from the cluster's new state")
			}
			return err
		},
	})
	graph.Add(stage.Record, &plan.Step{
		ID: "import/taken", Action: plan.Change, Subject: "cluster", Title: "record that Naupegos manages the cluster", Reason: "from now on, apply and all other commands work on it",
		Run: func(ctx context.Context, _ plan.Progress) error {
			if err := c.Facts.Set(ctx, memory.Bootstrapped, "true"); err != nil {
				return err
			}
			return c.Facts.Set(ctx, memory.Importing, "")
		},
	})
	steps, err := graph.Seal(stage.ImportRules)
	return &plan.Plan{Verb: "import", Cluster: c.Name(), Steps: steps}, err
}

// takeOver has a machine's agent note that the machine is ours.
func (c *Cluster) takeOver(m v1alpha1.Machine, lost []string) *plan.Step {
	step := &plan.Step{
		ID: "import/" + m.Name, Action: plan.Change, Subject: m.Name, Title: "take over " + m.Role + " " + m.Name,
		Reason: "its agent records that it is a machine of this cluster; nothing else is written, and nothing restarts",
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, m.Name)
			if err == nil {
				_, err = c.Dialer.Agent(ctx, h, nil, "adopt", c.Record.ID)
			}
			if err == nil {
				err = c.RememberHost(ctx, m.Name)
			}
			return err
		},
	}
	if len(lost) > 0 && m.Role == v1alpha1.RoleControlPlane && m.Index == 1 {
		step.Consent = ConsentLost
		step.Details = append([]string{"the first apply will remove settings that no document can hold:"}, lost...)
	}
	return step
}
