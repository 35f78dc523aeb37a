package main

import (
	"context"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// machines returns the machines that both sides use.
func machines(publicKey string) ([]provider.MachineSpec, error) {
	list := []provider.MachineSpec{
		{Name: "bench-gw-1", Role: provider.Gateway, Index: 1}, {Name: "bench-gw-2", Role: provider.Gateway, Index: 2},
		{Name: "bench-cp-1", Role: provider.ControlPlane, Index: 1}, {Name: "bench-cp-2", Role: provider.ControlPlane, Index: 2},
		{Name: "bench-cp-3", Role: provider.ControlPlane, Index: 3},
		{Name: "bench-general-1", Role: provider.Worker, Pool: "general", Index: 1},
		{Name: "bench-general-2", Role: provider.Worker, Pool: "general", Index: 2},
	}
	for i := range list {
		var err error
		list[i].UserData, err = machine.CloudInit(machine.UserData{Hostname: list[i].Name, SSHKeys: []string{publicKey}})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newProvider returns the local provider for kubeadm's machines, configured as in naupegos.
func newProvider(ctx context.Context, program string) (*local.Provider, string, error) {
	b, err := theBundle(ctx)
	if err != nil {
		return nil, "", err
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, "", err
	}
	agent := filepath.Join(filepath.Dir(program), "naupegos-agent")
	p, err := local.New(local.Options{
		ClusterID: "bench-be0c4add", ClusterName: "bench", Bundle: b, AgentBinary: agent, Supervisor: []string{program, local.SupervisorCommand},
	})
	return p, agent, err
}

// prepare builds the machines' image, so that both sides begin with it.
func prepare(ctx context.Context, program string) error {
	p, _, err := newProvider(ctx, program)
	if err != nil {
		return err
	}
	list, err := machines("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJlbmNoYmVuY2hiZW5jaGJlbmNoYmVuY2hiZW5jaGJlbmNo")
	if err != nil {
		return err
	}
	steps, err := p.Steps(ctx, provider.Wanted{Machines: list[:1]}, &provider.Inventory{})
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.ID == "image" {
			s.Needs = nil
			return execute(ctx, []*plan.Step{s})
		}
	}
	return nil
}

func execute(ctx context.Context, steps []*plan.Step) error {
	_, err := plan.Execute(ctx, &plan.Plan{Verb: "bench", Cluster: "bench", Steps: steps}, plan.Options{})
	return err
}
