package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// Applied is a plan with its inputs.
type Applied struct {
	Plan     *plan.Plan
	Observed *observe.Observed
	// More reports that not everything was visible (the API or etcd does not answer yet, or the address of a new machine is unknown): plan again
	// after this plan.
	More bool
	// Unready lists machines that can't be used yet, which prevents the plan from starting; nil if all can.
	Unready error
	// Again plans what remains after this plan; nil: PlanApply does.
	Again func(context.Context) (*Applied, error)
}

// Later returns why more may remain to do after this plan; "" if nothing does.
func (a *Applied) Later() string {
	switch err := cmp.Or(a.Observed.APIErr, a.Observed.EtcdErr); {
	case !a.More:
		return ""
	case err != nil:
		return "The API or etcd does not answer yet (" + err.Error() + "); once it does, apply may find more to do."
	}
	return "Once this is done, apply may find more to do."
}

// PlanApply compares the document with the observed cluster. An empty plan means that the cluster is as its document says.
func (c *Cluster) PlanApply(ctx context.Context) (*Applied, error) {
	return c.planApply(ctx, "apply", c.Decided())
}

// planApply plans for the document and for the decisions about single machines.
func (c *Cluster) planApply(ctx context.Context, verb string, decided wanted.Decisions) (*Applied, error) {
	check := c.CheckSets
	if verb != "apply" { // errors in the sets of a stored document must not block repairs
		check = func(context.Context) error { return nil }
	}
	for _, prepare := range []func(context.Context) error{check, c.CheckUpdateKey, c.Underway, c.IssuerReady, c.Advance} {
		if err := prepare(ctx); err != nil {
			return nil, err
		}
	}
	o, machines, err := c.lookDecided(ctx, decided)
	if err != nil {
		return nil, err
	}
	if o.Obstacles, err = c.Obstacles(ctx, o); err != nil {
		return nil, err
	}
	if err := c.RememberShapes(ctx, o); err != nil {
		return nil, err
	}
	p := &plan.Plan{Verb: verb, Cluster: c.Name(), Warnings: c.planWarnings(o)}
	if p.Document, err = c.DocumentDeltas(); err != nil {
		return nil, err
	}
	if p.Steps, err = c.steps(o, machines); err != nil {
		return nil, err
	}
	if verb != "apply" && o.SetsErr != nil { // a repair or renewal that succeeds must not end as failed
		p.Steps = slices.DeleteFunc(p.Steps, func(s *plan.Step) bool { return s.ID == addons.UnseenSets })
		p.Warnings = append(p.Warnings, "the manifests and charts could not be compared with the cluster: "+o.SetsErr.Error())
	}
	waits := c.takePart(o, p)
	c.WarnOfBudgets(ctx, p, o.Obstacles)
	ap := &Applied{Plan: p, Observed: o, More: c.ControlPlaneUnseen(o) || len(o.Replaced) > 0 || c.addressesPending(ctx, o) || c.Between() || len(wanted.Own(o.Want)) < len(o.Want)}
	if all := o.Unready(); len(all) > 0 {
		p.Warnings = append(p.Warnings, unfixed(all)...)
		ap.Unready = fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "%s can't be used yet; nothing was begun", words.Count(len(all), "machine", "machines"))
	}
	if all := checkRegistries(ctx, c, o); len(all) > 0 && ap.Unready == nil {
		p.Warnings = append(p.Warnings, unfixed(all)...)
		ap.Unready = fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "machines can't use all registries; nothing was begun")
	}
	if waits != nil && ap.Unready == nil {
		ap.Unready = waits
	}
	ap.More = ap.More && !c.onlyTest() && c.PausesAfter() == "" // else it is planned again and again
	return ap, p.Check()
}

// unfixed returns warnings about the faults that prevent an apply from starting.
func unfixed(all []error) (warnings []string) {
	for _, err := range all {
		warnings = append(warnings, "apply does not begin before this is fixed: "+err.Error())
	}
	return warnings
}

// lookDecided observes the cluster, and again after each decision that follows from an observation: drifted machines are replaced, and surge machines are
// added. Nothing is replaced while the control plane can't be seen.
func (c *Cluster) lookDecided(ctx context.Context, decided wanted.Decisions) (*observe.Observed, []*plan.Step, error) {
	o, machines, err := c.look(ctx, decided)
	if err != nil {
		return nil, nil, err
	}
	if err := cmp.Or(o.Unsigned(), o.Unfit(), c.Judge.Among(wanted.Names(o.Want))); err != nil {
		return nil, nil, err
	}
	if learned, err := c.Overtaken(ctx, o); err != nil {
		return nil, nil, err
	} else if learned {
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, nil, err
		}
	}
	if drifted, err := c.Drifted(o); err != nil {
		return nil, nil, err
	} else if len(drifted) > 0 && !c.ControlPlaneUnseen(o) {
		decided = decided.With(drifted)
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, nil, err
		}
		o.Drifted = drifted
	}
	if next, surges, err := c.withSurge(ctx, o, machines, decided); err != nil {
		return nil, nil, err
	} else if surges {
		drifted := o.Drifted
		decided = next
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, nil, err
		}
		o.Drifted = drifted
	}
	if c.ControlPlaneUnseen(o) && len(o.Replaced) > 0 { // nothing is replaced before it is known that the others can carry on
		apiErr, etcdErr := o.APIErr, o.EtcdErr
		if o, machines, err = c.look(ctx, decided.InPlace()); err != nil {
			return nil, nil, err
		}
		if !c.ControlPlaneUnseen(o) { // it may be visible by now, but this plan was made without it
			o.APIErr, o.EtcdErr = apiErr, etcdErr
		}
	}
	return o, machines, nil
}

// planWarnings returns the warnings of a plan.
func (c *Cluster) planWarnings(o *observe.Observed) []string {
	all := slices.Concat(o.Warnings, c.Judge.Warnings(wanted.Names(o.Want)))
	if newer := c.NewerBundle(); newer != "" {
		all = append(all, newer)
	}
	all = append(append(all, setImages(c)...), leftNotes(o)...)
	for _, obstacle := range o.Obstacles {
		all = append(all, "before the upgrade is finished: "+obstacle)
	}
	if now, err := c.ToldRotation(); err == nil && c.Held(now) {
		all = append(all, c.RotationNote())
	}
	for _, note := range append([]string{c.SoakNote(), c.proxyNote(o), directNote(c, o), rebootNote(c, o)}, outdated(o)...) {
		if note != "" {
			all = append(all, note)
		}
	}
	return all
}

// Only limits all plans to some parts of the cluster; none: no limit.
func (c *Cluster) Only(of []parts.Part) { c.only = of }

// PauseAfter makes every plan that rolls a machine end after this machine.
func (c *Cluster) PauseAfter(machine string) { c.pauseAt = machine }

// PausesAfter returns the machine after which the last plan ends with work remaining, as set by PauseAfter; empty: the plan is complete.
func (c *Cluster) PausesAfter() string {
	if !c.leftOut {
		return ""
	}
	return c.pauseAt
}

// onlyTest reports whether the operator requested only the smoke tests: they then run even if an earlier run proved the cluster.
func (c *Cluster) onlyTest() bool { return slices.Equal(c.only, []parts.Part{parts.Test}) }

// takePart reduces a plan to the part that Only or PauseAfter selects. It returns an error if that part must wait for other parts.
func (c *Cluster) takePart(o *observe.Observed, p *plan.Plan) error {
	c.leftOut = false
	if c.pauseAt != "" {
		if !slices.ContainsFunc(o.Want, func(s wanted.Slot) bool { return s.Name == c.pauseAt }) {
			return fail.New(fail.NotFound, "cluster %s has no machine %s to pause after", c.Name(), c.pauseAt).Do("naupegos status %s names them", c.Name())
		}
		until := parts.Until(p.Steps, c.pauseAt)
		if n := len(p.Steps) - len(until); n > 0 {
			p.Steps, p.LeftOut, c.leftOut = until, []string{words.Count(n, "step", "steps") + " that come after " + c.pauseAt}, true
		}
		return nil
	}
	if c.only == nil {
		return nil
	}
	part := parts.Select(p.Steps, c.only, c.applying(o, nil).partOf)
	p.Steps, p.LeftOut, c.leftOut = part.Steps, part.LeftOut, len(part.LeftOut) > 0
	if len(p.Steps) > 0 || len(part.Waits) == 0 {
		return nil
	}
	return fail.New(fail.NotReady, "%s can't come before %s", parts.Words(c.only), parts.Words(part.Waits)).At(c.Name()).
		Do("naupegos apply --only %s first; without --only everything comes in its order", strings.ReplaceAll(parts.Words(part.Waits), ", ", ","))
}

// checkInitial refuses to continue a bootstrap with another control plane than it began with.
func (c *Cluster) checkInitial(o *observe.Observed) error {
	if c.Facts.Bootstrapped() {
		return nil
	}
	wanted := map[string]bool{}
	for _, n := range c.NamesOf(provider.ControlPlane) {
		wanted[n] = true
	}
	for name := range c.InitialMembers() {
		if !wanted[name] {
			return fail.New(fail.Refused, "the first apply began with control-plane machine %s, which the document no longer wants", name).
				Do("apply with the former number until the cluster is up, then scale; or naupegos destroy %s and begin again", c.Name())
		}
	}
	return nil
}

// planInitial fixes, once, which control-plane machines start etcd together.
func (a *applying) planInitial() {
	if a.Facts.Get(memory.EtcdInitial) != "" {
		return
	}
	names := a.NamesOf(provider.ControlPlane)
	a.add(stage.Prepare, &plan.Step{
		ID: nodes.InitialStep, Action: plan.Create, Subject: "cluster", Title: "record the initial etcd members",
		Reason: "the initial members start together, by static bootstrapping",
		Run: func(ctx context.Context, _ plan.Progress) error {
			var parts []string
			for _, n := range names {
				addr, err := a.Address(ctx, n)
				if err != nil {
					return err
				}
				parts = append(parts, n+"="+connect.PeerURL(addr))
			}
			sort.Strings(parts)
			return a.Facts.Set(ctx, memory.EtcdInitial, strings.Join(parts, ","))
		},
	}, a.addressesOf(names)...)
}

// planGateways configures gateways that are not as wanted, one after another once the cluster is up, and replaces the gateways that drifted.
func (a *applying) planGateways() {
	var previous []plan.Need
	addresses := a.addressesOf(append(a.Gateways(), a.NamesOf(provider.ControlPlane)...))
	for _, s := range a.o.Want {
		if s.Role != provider.Gateway || a.upToDate(s) {
			continue
		}
		st := a.configured(s)
		if !a.Facts.Bootstrapped() {
			a.add(stage.Bootstrap, st, addresses...)
			continue
		}
		unit := append(a.replacement(s), st)
		if !a.ControlPlaneUnseen(a.o) { // else the API is waited for anyway
			unit = append(unit, a.GatewayGate(s.Name))
		}
		others := slices.DeleteFunc(slices.Clone(addresses), func(n plan.Need) bool { return n.ID == provider.MachineStep(s.Name) })
		previous = a.chain(stage.RollGateways, unit, append(others, previous...)...)
	}
}

// planControlPlane configures the control-plane machines that are members already or are members from the start. Serving machines restart one
// after another, once the idle machines are configured and the load balancer knows the other servers: restarting idle machines costs nothing, and
// each restart waits until all servers are healthy.
func (a *applying) planControlPlane(balanced []string) {
	var previous []plan.Need
	if !a.ControlPlaneUnseen(a.o) { // else the load balancer waits for the API
		previous = plan.After(balanced...)
	}
	for _, s := range a.o.LeaderLast() {
		if !s.IsControlPlane() || a.Joins(a.o, s) {
			continue
		}
		if a.upToDate(s) {
			if a.o.Mute(s.Name) {
				a.add(stage.Bootstrap, a.Gate(s.Name, "its etcd member does not answer"))
			} else if behind := a.o.Behind(s.Name); behind != "" && a.Facts.Bootstrapped() {
				previous = a.chain(stage.RollControlPlane, []*plan.Step{a.Gate(s.Name, "it was changed but not waited for: "+behind)}, previous...)
			}
			continue
		}
		st := a.configured(s)
		if !a.Facts.Bootstrapped() || !a.o.Serves(s.Name) || !a.o.Machines[s.Name].MayRestart() {
			needs := plan.IfPlanned(nodes.InitialStep)
			if a.Restoring() != nil && !a.Facts.Bootstrapped() {
				lay := a.LayStep(s.Name)
				a.add(stage.Bootstrap, lay, needs...)
				needs = plan.After(lay.ID)
			}
			a.add(stage.Bootstrap, st, append(needs, a.inTurn(s)...)...)
			continue
		}
		st.Rolling = true
		a.AfterOthers(st, a.o)
		gate := a.Gate(s.Name, "one control-plane machine at a time")
		if a.o.Nodes[s.Name].Ready && observe.RestartsKubelet(a.o.Machines[s.Name].Report) {
			gate = a.WithNode(gate, s)
		}
		previous = a.chain(stage.RollControlPlane, append([]*plan.Step{st, gate}, a.CheckSteps(s.Name)...), previous...)
	}
}

// planAPI waits until the API answers through the endpoint, if it did not answer yet. It does not wait for workers' machines, which may never come.
func (a *applying) planAPI(infrastructure []*plan.Step) {
	if a.Facts.Bootstrapped() && a.o.APIErr == nil && a.o.EtcdErr == nil {
		return
	}
	workers := nodes.IDsOf(provider.MachineStep, a.NamesOf(provider.Worker))
	others := slices.DeleteFunc(nodes.IDs(infrastructure), func(id string) bool { return slices.Contains(workers, id) })
	a.add(stage.Serve, &plan.Step{
		ID: nodes.APIStep, Action: plan.Wait, Subject: "cluster", Title: "wait for the Kubernetes API",
		Reason: "the steps that follow use it",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := a.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for %s/readyz", client.Server())
			if err := support.WaitThenDiagnose(ctx, a.Admit, a.APITrouble); err != nil {
				return err
			}
			if err := a.Facts.Set(ctx, memory.Bootstrapped, "true"); err != nil {
				return err
			}
			return a.DropSnapshot()
		},
	}, plan.After(others...)...)
}
