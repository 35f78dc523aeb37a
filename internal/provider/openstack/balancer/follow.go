package balancer

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

const balanceStep = "balance/loadbalancer"

// Balance returns the step that updates the load balancer to the current machines: every control-plane machine behind the API, every worker
// behind the ingress ports, and those ports as in the document. It returns none if nothing differs. It is one step, because Octavia accepts
// one change at a time.
func (k *Keeper) Balance(want provider.Wanted) []*plan.Step {
	if k.opts.Octavia == nil {
		return nil
	}
	s := &plan.Step{
		ID: balanceStep, Action: plan.Change, Title: "update the load balancer's members and ports", Subject: "cluster",
		Timeout: 2*k.opts.Timeouts.Boot + k.opts.Timeouts.Step,
		Run:     func(ctx context.Context, progress plan.Progress) error { return k.follow(ctx, want, progress) },
	}
	for _, made := range k.Steps(want) { // in the same plan
		s.Needs = append(s.Needs, made.ID)
	}
	b := k.Seen()
	if b == nil {
		s.Reason = "it starts with one control-plane machine as its only member"
		return []*plan.Step{s}
	}
	if s.Details = k.unbalanced(b, want); len(s.Details) == 0 {
		return nil
	}
	s.Reason = "they differ from the machines and the document"
	return []*plan.Step{s}
}

// unbalanced lists the differences between the load balancer and the wanted machines.
func (k *Keeper) unbalanced(b *State, want provider.Wanted) []string {
	var out []string
	for i, w := range k.wantedFronts(k.opts.CIDR()) {
		f := b.Front(w.name)
		if i > 0 { // Steps handles the rest of the API's front
			out = append(out, w.settings(f)...)
		}
		have, known := f.machines(), k.wantedMembers(context.Background(), w, want)
		out = append(out, changes(have, known)...)
		for _, s := range want.Machines {
			unknown := func(ms []member) bool {
				return !slices.ContainsFunc(ms, func(m member) bool { return m.name == s.Name })
			}
			if s.Role == w.role && unknown(known) {
				out = append(out, "add "+s.Name)
			}
		}
	}
	for _, name := range k.unwanted(b) {
		out = append(out, "remove "+name)
	}
	return out
}

// unwanted lists the cluster's fronts that the document no longer wants.
func (k *Keeper) unwanted(b *State) []string {
	var out []string
	fronts := k.wantedFronts("")
	for _, name := range k.frontNames() {
		f := b.Front(name)
		if (f.Listener.ID != "" || f.Pool.ID != "") && !slices.ContainsFunc(fronts, func(w frontWant) bool { return w.name == name }) {
			out = append(out, name)
		}
	}
	return out
}

// follow carries out the step of Balance.
func (k *Keeper) follow(ctx context.Context, want provider.Wanted, progress plan.Progress) error {
	c, err := k.needed(ctx)
	if err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	subnet, err := k.opts.Subnet(ctx)
	if err != nil {
		return err
	}
	b, err := k.look(ctx, c)
	if err != nil {
		return err
	}
	if b == nil {
		return fail.New(fail.NotReady, "the load balancer does not exist").At(k.opts.Names.Name(FrontAPI)).Do("apply again")
	}
	for _, w := range k.wantedFronts(subnet.CIDR) {
		members := k.wantedMembers(ctx, w, want)
		if n := machinesOf(want, w.role); len(members) < n {
			return fail.New(fail.NotReady, "the addresses of %d of %d machines are not known yet", n-len(members), n).At(w.name)
		}
		if err := k.ensureFront(ctx, c, b, w, members, progress); err != nil {
			return err
		}
	}
	for _, name := range k.unwanted(b) {
		if err := (fronting{k, c, b, progress}).remove(ctx, name, b.Front(name)); err != nil {
			return err
		}
	}
	_, err = k.look(ctx, c)
	return err
}

func machinesOf(want provider.Wanted, role provider.Role) int {
	n := 0
	for _, s := range want.Machines {
		if s.Role == role {
			n++
		}
	}
	return n
}
