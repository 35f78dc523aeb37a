// Package hosts is the provider for machines that the user names by address: it makes and removes none.
//
// It can tell whether a host answers SSH; the software on a host is outside its scope.
package hosts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Memory lists the hosts that Naupegos has worked on, so that hosts that the document no longer names can be cleaned.
type Memory interface {
	Known() []provider.Machine
	Forget(ctx context.Context, name string) error
}

// Provider serves the machines that a document names.
type Provider struct {
	doc    *v1alpha1.Cluster
	reach  Reach
	memory Memory
	logins *logins
	named  func() map[string]v1alpha1.Machine // the document's hosts by name
	ways   func() []v1alpha1.Machine          // gateways of the document that others may be reached through

	mu        sync.Mutex
	found     map[string]answer           // by name: results of the last Observe
	converted map[string]provider.Machine // by name: the document's hosts whose logins are known
}

// New returns the provider for doc's hosts.
func New(doc *v1alpha1.Cluster, run Runner, memory Memory) *Provider {
	return &Provider{
		doc: doc, reach: Reach{Run: run, Patience: time.Second}, memory: memory, logins: newLogins(doc.Spec.Provider.Hosts), found: map[string]answer{}, converted: map[string]provider.Machine{},
		named: sync.OnceValue(func() map[string]v1alpha1.Machine {
			all := map[string]v1alpha1.Machine{}
			for _, m := range doc.Machines() {
				all[m.Name] = m
			}
			return all
		}),
		ways: sync.OnceValue(func() []v1alpha1.Machine {
			return slices.DeleteFunc(doc.Machines(), func(m v1alpha1.Machine) bool {
				return m.Role != v1alpha1.RoleGateway || m.Host.HostKey == "" && !doc.Spec.Provider.Hosts.TrustOnFirstUse
			})
		}),
	}
}

// Traits reports that the document names the machines, and that they outlive the cluster.
func (p *Provider) Traits() provider.Traits { return provider.Traits{Given: true, Keeps: true} }

// Preflight accepts every host: its agent checks later whether it is suitable.
func (p *Provider) Preflight(context.Context, provider.Wanted) error { return nil }

// Observe checks whether the document's hosts, and those in use before, answer.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	if err := p.logins.check(p.doc.Machines()); err != nil {
		return nil, err
	}
	inv := &provider.Inventory{VIP: p.doc.Spec.Endpoint.VIP, Machines: p.machines()}
	if err := p.ask(ctx, inv.Machines); err != nil {
		return nil, err
	}
	provider.Sort(inv.Machines)
	return inv, nil
}

// machines lists the document's hosts and those in use before, with their last observed state. A host that was not checked yet counts as
// running.
func (p *Provider) machines() []provider.Machine {
	var out []provider.Machine
	for _, m := range p.doc.Machines() {
		out = append(out, p.convert(m))
	}
	return append(out, p.former()...)
}

// former lists the hosts in use before that the document does not name.
func (p *Provider) former() (out []provider.Machine) {
	for _, m := range p.memory.Known() {
		if _, ok := p.named()[m.Name]; !ok {
			m.State, m.Detail = provider.Running, "" // the stored state may be out of date
			out = append(out, p.asFound(m))
		}
	}
	return out
}

// asFound returns a host in its last observed state.
func (p *Provider) asFound(m provider.Machine) provider.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.found[m.Name]; ok {
		m.State, m.Detail = a.state, a.detail
	}
	return m
}

func (p *Provider) convert(m v1alpha1.Machine) provider.Machine {
	p.mu.Lock()
	out, known := p.converted[m.Name]
	p.mu.Unlock()
	if known {
		return p.asFound(out)
	}
	out = provider.Machine{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index, Address: m.Host.Address, State: provider.Running}
	if err := p.logins.fill(&out, m.Host); err != nil {
		out.Detail = err.Error() // Observe returns this error
		return p.asFound(out)
	}
	p.mu.Lock()
	p.converted[m.Name] = out
	p.mu.Unlock()
	return p.asFound(out)
}

// Steps returns no steps: there is nothing to make.
func (p *Provider) Steps(context.Context, provider.Wanted, *provider.Inventory) ([]*plan.Step, error) {
	return nil, nil
}

// Machine returns one of the hosts in the state of the last Observe. Rendering asks it for each machine once per machine.
func (p *Provider) Machine(_ context.Context, name string) (provider.Machine, error) {
	if m, ok := p.named()[name]; ok {
		return p.convert(m), nil
	}
	for _, m := range p.former() {
		if m.Name == name {
			return m, nil
		}
	}
	return provider.Machine{}, fail.New(fail.NotFound, "machine %s is not among spec.provider.hosts.machines", name)
}

// VIP returns the address in the document.
func (p *Provider) VIP(context.Context) (string, error) {
	if v := p.doc.Spec.Endpoint.VIP; v != "" {
		return v, nil
	}
	return "", fail.New(fail.NotFound, "spec.endpoint.vip is not set")
}

// DestroyMachine returns the step that ends a host's membership; the host itself stays unchanged.
func (p *Provider) DestroyMachine(m provider.Machine) *plan.Step {
	s := &plan.Step{
		ID: provider.DestroyStep(m.Name), Action: plan.Destroy, Subject: m.Name,
		Title: fmt.Sprintf("release host %s (%s)", m.Name, m.Address), Reason: "it is no longer part of the cluster",
		Run: func(ctx context.Context, _ plan.Progress) error { return p.memory.Forget(ctx, m.Name) },
	}
	if m.State == provider.Unreachable {
		s.Details = []string{"it does not answer: what Naupegos installed on it stays there"}
	}
	return s
}

// Destroy returns no steps: the agent cleans hosts earlier.
func (p *Provider) Destroy(context.Context, *provider.Inventory) []*plan.Step { return nil }
