package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// SetRecovering records the progress of a recovery.
func (c *Keeper) SetRecovering(ctx context.Context, r *env.Recovering) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember what etcd is recovered from")
	}
	return c.Facts.Set(ctx, memory.Recovering, string(data))
}

// PlanRecover plans to continue etcd from one surviving member after it lost its quorum. The members on the other machines are stopped, and their data is
// kept aside; machines that don't answer are given up, with consent. Afterwards apply joins the other machines again.
func (c *Keeper) PlanRecover(ctx context.Context, from string) (*plan.Plan, error) {
	switch {
	case !c.Facts.Bootstrapped():
		return nil, env.ErrNotBootstrapped(c.Name())
	case c.Facts.Is(memory.Resetting):
		return nil, c.ErrResetting()
	case c.Facts.Is(memory.Releasing):
		return nil, env.ErrReleasing(c.Name())
	}
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]int64{}
	if err := c.WithEtcd(ctx, func(e *etcd.Client) error { known = e.Revisions(ctx); return nil }); err != nil && fail.KindOf(err) != fail.Unreachable {
		return nil, err
	}
	answers := map[string]bool{}
	for _, m := range o.Inventory.Machines {
		if m.Role == provider.ControlPlane && m.State == provider.Running {
			answers[m.Name] = c.answers(ctx, m.Name)
		}
	}
	p := &plan.Plan{Verb: "etcd recover", Cluster: c.Name()}
	p.Steps, err = c.RecoverSteps(ctx, o, from, known, answers)
	return p, err
}

// answers reports whether a machine lets Naupegos in.
func (c *Keeper) answers(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.Dialer.Run(ctx, h, nil, "true")
	}
	return err == nil
}

// RecoverSteps returns the steps; known holds the revisions that members report, and answers the machines that can be reached.
func (c *Keeper) RecoverSteps(ctx context.Context, o *observe.Observed, from string, known map[string]int64, answers map[string]bool) ([]*plan.Step, error) {
	slot, err := c.survivor(o, from, known, answers)
	if err != nil {
		return nil, err
	}
	if c.Recovering() == nil {
		if err := c.SetRecovering(ctx, &env.Recovering{From: from, Run: time.Now().UTC().Format("20060102T150405Z")}); err != nil {
			return nil, err
		}
	}
	c.SetTarget(slices.DeleteFunc(slices.Clone(o.Want), func(s wanted.Slot) bool { // the survivor starts before the others have an address again
		return !slices.ContainsFunc(o.Inventory.Machines, func(m provider.Machine) bool { return m.Name == s.Name && m.Address != "" })
	}))
	var graph plan.Graph
	graph.Add(stage.Prepare, c.recoverStep("send", plan.Create, "send etcd's programs to "+from, "they read the data of its member", c.sendForSalvage))
	for _, m := range o.Inventory.Machines {
		switch {
		case m.Role != provider.ControlPlane || m.Name == from || m.State == provider.Partial:
		case answers[m.Name]:
			graph.Add(stage.Clean, c.clearStep(m.Name))
		default:
			graph.Add(stage.Clean, c.giveUpStep(m))
		}
	}
	salvage := c.recoverStep("salvage", plan.Change, "read the data of etcd on "+from+" and start a new etcd cluster from it", "it is the only remaining member", c.salvage)
	salvage.Removes = true
	salvage.Details = []string{"writes after the last revision that " + from + " holds are lost", "its current data is kept on the machine"}
	if known[from] > 0 {
		salvage.Details = append(salvage.Details, "the last revision that it reports: "+strconv.FormatInt(known[from], 10))
	}
	graph.Add(stage.Bootstrap, salvage)
	graph.Add(stage.Bootstrap, c.ConfigureStep(slot, plan.Change, "etcd and the API server start there", nil), plan.After(salvage.ID)...)
	graph.Add(stage.Serve, c.recoverStep("serve", plan.Wait, "wait for etcd and the API server on "+from, "the others join it", func(ctx context.Context, p plan.Progress, r *env.Recovering) error {
		if err := c.WaitEtcd(ctx); err != nil {
			return err
		}
		return c.WaitServer(ctx, r.From)
	}))
	graph.Add(stage.Forget, c.recoverStep("end", plan.Change, "finish the recovery", "the other control-plane machines join in the next apply", func(ctx context.Context, _ plan.Progress, r *env.Recovering) error {
		h, err := c.Host(ctx, r.From)
		if err == nil {
			_, err = c.Dialer.Run(ctx, h, nil, r.Place().Tidy()...)
		}
		if err != nil {
			return err
		}
		done := *r
		done.Done = true
		return c.SetRecovering(ctx, &done)
	}))
	return graph.Seal(stage.RecoverRules)
}

// survivor checks that etcd can be recovered from a machine, and that etcd has really lost its quorum.
func (c *Keeper) survivor(o *observe.Observed, from string, known map[string]int64, answers map[string]bool) (slot wanted.Slot, err error) {
	var names []string
	for _, m := range o.Inventory.Machines {
		names = append(names, m.Name)
	}
	i := slices.IndexFunc(o.Want, func(s wanted.Slot) bool { return s.Name == from && s.IsControlPlane() })
	r := c.Recovering()
	switch {
	case !slices.Contains(names, from):
		return slot, env.ErrNoSuchMachine(from, c.Name(), names)
	case i < 0:
		return slot, fail.New(fail.Invalid, "%s is not one of the document's control-plane machines", from).Do("they are %s", strings.Join(c.NamesOf(provider.ControlPlane), ","))
	case r != nil && r.From != from:
		return slot, c.ErrRecovering()
	case r == nil && o.EtcdErr == nil:
		return slot, fail.New(fail.Refused, "etcd has its quorum: %s", etcd.Now(o.Members, o.Health)).At(c.Name()).
			Do("naupegos apply brings its members back, naupegos node replace puts another machine in the place of one")
	case !answers[from]:
		return slot, fail.New(fail.Unreachable, "nothing can be recovered from a machine that does not answer").At(from).Do("start it, or recover from another one")
	}
	for name, rev := range known {
		if r == nil && known[from] > 0 && rev > known[from] {
			return slot, fail.New(fail.Refused, "%s holds revision %d, and %s only %d: what came between would be lost", name, rev, from, known[from]).Do("recover from %s", name)
		}
	}
	return o.Want[i], nil
}

// recoverStep is a step on the survivor.
func (c *Keeper) recoverStep(id string, action plan.Action, title, reason string, run func(context.Context, plan.Progress, *env.Recovering) error) *plan.Step {
	return &plan.Step{
		ID: "etcd/recover/" + id, Action: action, Subject: c.Recovering().From, Title: title, Reason: reason, Timeout: env.LayTimeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			if r := c.Recovering(); r != nil {
				return run(ctx, p, r)
			}
			return nil
		},
	}
}

// sendForSalvage sends the tools for reading its data to the survivor, unless the data was read already.
func (c *Keeper) sendForSalvage(ctx context.Context, p plan.Progress, r *env.Recovering) error {
	h, err := c.Host(ctx, r.From)
	if err != nil {
		return err
	}
	laid, err := c.Dialer.Run(ctx, h, nil, r.Place().Prepare()...)
	if err != nil || len(laid) > 0 {
		return err
	}
	for _, program := range []string{"etcd", "etcdctl", "etcdutl"} {
		p.Status("sending %s", program)
		if err := c.sendProgram(ctx, r.From, r.Place(), program); err != nil {
			return err
		}
	}
	return nil
}

// clearStep stops a machine's member, and keeps its data aside: it joins as a new one.
func (c *Keeper) clearStep(name string) *plan.Step {
	return &plan.Step{
		ID: "etcd/clear/" + name, Action: plan.Change, Subject: name, Title: "stop etcd on " + name + " and keep its data on the machine", Removes: true,
		Reason: "it can't be a member of the etcd cluster that starts from " + c.Recovering().From,
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err == nil {
				_, err = c.Dialer.Run(ctx, h, nil, c.Recovering().Place().Clear()...)
			}
			return err
		},
	}
}

// giveUpStep has nothing of a machine that does not answer come back: two members that do would serve the former data.
func (c *Keeper) giveUpStep(m provider.Machine) *plan.Step {
	s := &plan.Step{
		ID: "etcd/give-up/" + m.Name, Action: plan.Change, Subject: m.Name, Title: "give up " + m.Name, Consent: nodes.ConsentLeave,
		Reason:  "it is " + string(m.State) + ", and its etcd can't be stopped",
		Details: []string{"make sure that it does not come back: together with others it would serve the old data"},
	}
	if c.Prov.Traits().Given {
		s.Details = append(s.Details, "apply refuses to use it until naupegos reset --machine has cleaned it")
		s.Run = func(ctx context.Context, _ plan.Progress) error {
			return c.Facts.SetOf(ctx, memory.Unclean, m.Name, "true")
		}
	} else {
		s.Details = append(s.Details, "apply replaces it with another machine")
		s.Run = func(ctx context.Context, _ plan.Progress) error { return c.Decide(ctx, wanted.Replace, m.Name) }
	}
	return s
}

// forgetJoins forgets how members have joined: there is another initial cluster.
func (c *Keeper) forgetJoins(ctx context.Context) error {
	for name := range c.Facts.Each(memory.EtcdJoin) {
		if err := c.Facts.SetOf(ctx, memory.EtcdJoin, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// salvage creates the survivor's data from its old data, as the only member.
func (c *Keeper) salvage(ctx context.Context, p plan.Progress, r *env.Recovering) error {
	h, err := c.Host(ctx, r.From)
	if err != nil {
		return err
	}
	p.Status("reading the data of etcd on %s", r.From)
	out, err := c.Dialer.Run(ctx, h, nil, r.Place().Salvage()...)
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "read what etcd holds").At(r.From)
	}
	left, err := laying.ReadSalvaged(out)
	if err != nil {
		return err
	}
	found := *r
	found.Left = &left
	if err := c.SetRecovering(ctx, &found); err != nil {
		return err
	}
	addr, err := c.Address(ctx, r.From)
	if err != nil {
		return err
	}
	initial := r.From + "=" + connect.PeerURL(addr)
	if err := c.Facts.Set(ctx, memory.EtcdInitial, initial); err != nil {
		return err
	}
	if err := c.forgetJoins(ctx); err != nil {
		return err
	}
	p.Status("creating the data directory on %s", r.From)
	if _, err = c.Dialer.Run(ctx, h, nil, r.Place().Lay(r.From, initial, connect.PeerURL(addr))...); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "make the data of etcd").At(r.From)
	}
	return nil
}

// FitsAnew refuses a document of another cluster that can't be made of the backup of the cluster of a former one. named: it is the former document with
// another name.
func FitsAnew(doc, former *v1alpha1.Cluster, named bool) error {
	refuse := func(do, format string, args ...any) error {
		return fail.New(fail.Refused, "no other cluster can be made of the backup of %s: %s", former.Metadata.Name, fmt.Sprintf(format, args...)).At(doc.Metadata.Name).Do("%s", do)
	}
	is, was := doc.Spec, former.Spec
	for field, values := range map[string][2]string{
		"spec.kubernetes.version": {is.Kubernetes.Version, was.Kubernetes.Version}, "spec.kubernetes.podCIDR": {is.Kubernetes.PodCIDR, was.Kubernetes.PodCIDR},
		"spec.kubernetes.serviceCIDR": {is.Kubernetes.ServiceCIDR, was.Kubernetes.ServiceCIDR}, "spec.kubernetes.dnsDomain": {is.Kubernetes.DNSDomain, was.Kubernetes.DNSDomain},
	} {
		if values[0] != values[1] {
			return refuse("make the document agree with the backup's", "its objects are of %s %s, and the document says %s", field, values[1], values[0])
		}
	}
	if v, w := is.PKI.VaultIssuer(), was.PKI.VaultIssuer(); v != nil && w != nil && v.Address == w.Address && v.Mount == w.Mount && v.Namespace == w.Namespace {
		return refuse("make mounts for the new cluster, and give its document by -f", "both clusters would use the same authorities in Vault, and admit each other's users")
	}
	if e := is.Endpoint; named && doc.Metadata.Name != former.Metadata.Name && (is.Provider.Hosts != nil || e.VIP+e.DNSName+e.FloatingIP+e.Address != "") {
		return refuse("give the new cluster's document by -f", "its document names hosts or an endpoint that are its own")
	}
	return nil
}
