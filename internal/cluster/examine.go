package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/judge"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
)

// checkFacts returns an error if a machine can't fill its role.
func (c *Cluster) checkFacts(s wanted.Slot, f machine.Facts) error {
	subject := judge.Subject{
		Name: s.Name, Role: s.Role, Given: c.prov.Traits().Given, Adopted: c.facts.Of(memory.Host, s.Name) != "", Ports: c.portsOf(s.Role),
	}
	for _, m := range c.doc.Machines() {
		if m.Name == s.Name && m.Host != nil {
			subject.Address = m.Host.Address
		}
	}
	return c.judge.Facts(subject, f)
}

// portsOf lists the TCP ports that a role needs.
func (c *Cluster) portsOf(r provider.Role) []judge.Port {
	kubelet := []judge.Port{{Number: 10250, Of: "kubelet"}, {Number: 10248, Of: "kubelet", Local: true}}
	switch r {
	case provider.Gateway:
		needs := []judge.Port{{Number: c.doc.Spec.Endpoint.Port, Of: "the endpoint's HAProxy"}, {Number: 8404, Of: "HAProxy's health page", Local: true}}
		if c.doc.Spec.Endpoint.IngressWanted() != nil {
			needs = append(needs, judge.Port{Number: v1alpha1.HTTPPort, Of: "ingress"}, judge.Port{Number: v1alpha1.HTTPSPort, Of: "ingress"})
		}
		return needs
	case provider.ControlPlane:
		return append([]judge.Port{
			{Number: apiPort, Of: "kube-apiserver"}, {Number: 2379, Of: "etcd"}, {Number: 2380, Of: "etcd"}, {Number: 2381, Of: "etcd", Local: true},
			{Number: 10257, Of: "kube-controller-manager", Local: true}, {Number: 10259, Of: "kube-scheduler", Local: true},
		}, kubelet...)
	}
	return kubelet
}

// unfit reports which of the wanted machines can't be what they should be: nothing is begun before that is mended.
func (o *Observed) unfit() error {
	var all []error
	for _, s := range o.Want {
		var no *unfitError
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &no) {
			all = append(all, no.error)
		}
	}
	if len(all) < 2 {
		return errors.Join(all...)
	}
	return fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "%d machines can't be used as they are", len(all))
}

// unfitError is why a machine can't be what it should be.
type unfitError struct{ error }

// Unwrap returns the reason.
func (e *unfitError) Unwrap() error { return e.error }

// examine asks a machine what it is and refuses it where it can't be what it should be.
func (c *Cluster) examine(ctx context.Context, s wanted.Slot) (machine.Facts, error) {
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return machine.Facts{}, err
	}
	f, err := c.dialer.Facts(ctx, h)
	if err != nil {
		return f, c.neverReached(s, err)
	}
	if err := c.checkFacts(s, f); err != nil {
		return f, &unfitError{err}
	}
	return f, nil
}

// unreadyError is why a host that was never in use can't be used yet.
type unreadyError struct{ error }

// Unwrap returns the reason.
func (e *unreadyError) Unwrap() error { return e.error }

// neverReached marks the error of a host that the document gives by address, that the cluster has not used yet, and whose agent has never answered:
// apply does not begin. A host that was in use may come back, and apply continues without it.
func (c *Cluster) neverReached(s wanted.Slot, err error) error {
	if !c.prov.Traits().Given || c.facts.Of(memory.Host, s.Name) != "" || fail.KindOf(err) == fail.Interrupted {
		return err
	}
	if fail.KindOf(err) == fail.Internal {
		err = fail.Wrap(fail.Refused, err, "the first contact failed")
	}
	return &unreadyError{err}
}

// unreached notes why a machine that its provider could not reach was not asked, and reports whether that is so.
func (c *Cluster) unreached(s wanted.Slot, seen *Seen) bool {
	if seen.Machine.State != provider.Unreachable {
		return false
	}
	seen.Err = c.neverReached(s, fail.New(fail.Unreachable, "%s", seen.Machine.Detail))
	return true
}

// unready reports which of the wanted machines can't be used yet; nil where all can.
func (o *Observed) unready() (all []error) {
	for _, s := range o.Want {
		var not *unreadyError
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &not) {
			all = append(all, not.error)
		}
	}
	return all
}

// examineFresh examines the running machines whose configuration is not known yet. Without a bundle, it examines only new hosts that the document gives
// by address: a bundle takes long to fetch, and such a host may not be usable at all.
func (c *Cluster) examineFresh(ctx context.Context, o *Observed) {
	var wg sync.WaitGroup
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		given := c.prov.Traits().Given && c.facts.Of(memory.Host, s.Name) == ""
		if seen == nil || c.canRender(s) || c.bundle == nil && !given || c.unreached(s, seen) || seen.Machine.State != provider.Running {
			continue
		}
		wg.Go(func() { _, seen.Err = c.examine(ctx, s) })
	}
	wg.Wait()
}

// unsigned is why a machine could not be compared with what it should be: its certificates could not be had. Nothing is wrong with the machine.
func (o *Observed) unsigned() error {
	for _, s := range o.Want {
		var no *pki.Unsigned
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &no) {
			return seen.Err
		}
	}
	return nil
}

// issuerReady is nil where whoever signs the cluster's certificates can do so: a cluster is not begun before. One that is up asks for what it needs
// when it needs it, and goes on without where nothing is due.
func (c *Cluster) issuerReady(ctx context.Context) error {
	if c.vault == nil || c.facts.Bootstrapped() {
		return nil
	}
	have, err := c.authorities(ctx)
	if err != nil {
		return err
	}
	return c.vault.Ready(ctx, have)
}

// CheckIssuer looks at whoever signs the cluster's certificates, where that is not naupegos.
func (c *Cluster) CheckIssuer(ctx context.Context) (out []provider.Check, _ error) {
	if c.vault == nil {
		return nil, nil
	}
	have, err := c.authorities(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range c.vault.Check(ctx, have) {
		check := provider.Check{Name: f.Name, Result: provider.Fine, Detail: f.Detail}
		switch {
		case f.Err != nil:
			check.Result, check.Detail = provider.Failing, f.Err.Error()
		case f.Warning:
			check.Result = provider.Warning
		}
		out = append(out, check)
	}
	return out, nil
}

// authorities are the certificates of those that the cluster has already, by their names.
func (c *Cluster) authorities(ctx context.Context) (map[string][]byte, error) {
	have := map[string][]byte{}
	for _, name := range pki.Authorities() {
		cert, err := c.pki.Certificate(ctx, name, c.generation(name))
		if fail.KindOf(err) == fail.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		have[name] = cert
	}
	return have, nil
}

// obstacles says what may hold an upgrade up that is on its way to a newer release, or break by it.
func (c *Cluster) obstacles(ctx context.Context, o *Observed) ([]string, error) {
	told := c.told()
	run, err := hops.Parse(c.facts.Get(memory.ReleasesRun))
	if back := told == hops.Of(run.Machines); err != nil || !c.moving() || back || c.controlPlaneUnseen(o) || o.Nodes == nil {
		return nil, nil
	}
	if c.facts.Get(memory.Begun) == told.String() {
		return nil, nil // what is sick may be so by the hop itself
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime(c.doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	found := c.shortOfRoom(o)
	for _, s := range o.Want {
		if n, known := o.Nodes[s.Name]; known && !n.Ready {
			found = append(found, "node "+s.Name+" is not ready")
		}
	}
	for _, h := range o.Health {
		if !h.OK() {
			found = append(found, "etcd member "+h.Name+" is not well")
		}
	}
	more, err := client.Obstacles(ctx, c.drains(o, told))
	if err != nil {
		return nil, err
	}
	for _, k := range c.doc.Spec.Updates.Checks {
		if err := client.Holds(ctx, kube.Check(k)); err != nil {
			found = append(found, err.Error())
		}
	}
	stored, err := client.StoredIn(ctx, release.Dropped(c.goal().Version))
	if err != nil {
		return nil, err
	}
	used, err := c.deprecatedUse(ctx, o)
	return slices.Concat(found, more, stored, used), err
}

// drains lists the nodes that an upgrade to a release drains, each with how many more its pool is to have by then: wanted.WithSurge decides on
// them once that hop has come.
func (c *Cluster) drains(o *Observed, to hops.Releases) (all []kube.Away) {
	var pools []string
	for _, s := range wanted.Own(o.Want) {
		if _, known := o.Nodes[s.Name]; s.Role == provider.Worker && known && hops.OfPool(to, c.pin(s)) == to.Machines { // others are not drained
			all, pools = append(all, kube.Away{Node: s.Name}), append(pools, s.Pool)
		}
	}
	drained, beside := map[string]int{}, map[string]int{} // those beside a pool's own that have nodes: their room is known
	for _, pool := range pools {
		drained[pool]++
	}
	for _, s := range o.Want {
		if _, known := o.Nodes[s.Name]; s.Surge && known {
			beside[s.Pool]++
		}
	}
	for _, m := range o.Remove {
		if o.takesPods(m) {
			beside[m.Pool]++
		}
	}
	for i, pool := range pools {
		all[i].Beside = max(0, min(c.doc.Spec.Updates.Surge(), drained[pool])-beside[pool])
	}
	return all
}

// takesPods reports whether a machine that goes serves until then.
func (o *Observed) takesPods(m provider.Machine) bool {
	n := o.Nodes[m.Name]
	return !o.dead(m) && n.Ready && !n.Unschedulable
}

// deprecatedUse asks every API server for the APIs that the release which is wanted does not serve any more.
func (c *Cluster) deprecatedUse(ctx context.Context, o *Observed) (found []string, err error) {
	for _, s := range o.Want {
		if !s.IsControlPlane() || !o.serves(s.Name) {
			continue
		}
		client, err := c.kubeAt(ctx, s.Name)
		if err != nil {
			return nil, err
		}
		used, err := client.DeprecatedUse(ctx, release.MinorOf(c.goal().Version))
		client.Close()
		if err != nil {
			return nil, err
		}
		for _, u := range used {
			if !slices.Contains(found, u) {
				found = append(found, u)
			}
		}
	}
	return found, nil
}
