package main

import (
	"context"
	"net"
	"slices"

	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// ready installs on a machine what an expert installs before kubeadm: containerd, kubelet and kubeadm, or HAProxy and keepalived.
func (s *side) ready(ctx context.Context, spec provider.MachineSpec) error {
	h, err := s.host(ctx, spec.Name)
	if err != nil {
		return err
	}
	err = until(ctx, spec.Name+" answers", func(ctx context.Context) error {
		_, err := s.dialer.Facts(ctx, h)
		return err
	})
	if err != nil {
		return err
	}
	render := func(facts machine.Facts) (machine.Config, error) { return s.config(ctx, spec, h, facts) }
	_, err = s.dialer.Apply(ctx, h, render, remote.ApplyOptions{})
	return err
}

func (s *side) config(ctx context.Context, spec provider.MachineSpec, h remote.Host, facts machine.Facts) (machine.Config, error) {
	if spec.Role == provider.Gateway {
		return s.gateway(ctx, h, facts)
	}
	cfg, err := s.params().Runtime(layout.Node{Name: spec.Name, Address: h.Address, Facts: facts}, string(spec.Role))
	if err != nil {
		return cfg, err
	}
	// The pod network's configuration comes from flannel's DaemonSet, as usual; only naupegos writes it in advance.
	cfg.Files = slices.DeleteFunc(cfg.Files, func(f machine.File) bool { return f.Path == layout.FlannelConflistPath })
	cfg.Machine = spec.Name
	if spec.Name != "bench-cp-1" {
		return cfg, nil
	}
	for _, a := range []struct{ authority, file string }{{pki.KubernetesCA, "ca"}} { // HAProxy on the gateways trusts it from the start
		pair, err := s.keys.Authority(ctx, a.authority)
		if err != nil {
			return cfg, err
		}
		cfg.Files = append(cfg.Files,
			machine.File{Path: "/etc/kubernetes/pki/" + a.file + ".crt", Mode: 0o644, Content: pair.CertPEM},
			machine.File{Path: "/etc/kubernetes/pki/" + a.file + ".key", Mode: 0o600, Content: pair.KeyPEM, Secret: true})
	}
	return cfg, nil
}

// params returns the parameters for containerd's configuration and flannel's manifests.
func (s *side) params() layout.Params {
	return layout.Params{
		ClusterName: "bench", Endpoint: net.JoinHostPort(s.vip, "6443"), Release: layout.Release{Version: version, Bundle: s.bundle.Manifest}, PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/16",
		DNSDomain: "cluster.local", EtcdMode: layout.EtcdStacked, CNI: layout.CNIFlannel, SharedKernel: true,
		ControlPlanes: []layout.Node{{Name: "bench-cp-1", Address: "192.0.2.1"}},
	}
}

func (s *side) gateway(ctx context.Context, self remote.Host, facts machine.Facts) (machine.Config, error) {
	ca, err := s.keys.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	p := gateway.Params{ClusterName: "bench", VIP: s.vip, Port: 6443, Interface: facts.Interface, CACert: ca}
	for _, spec := range s.list {
		m, err := s.prov.Machine(ctx, spec.Name)
		if err != nil {
			return machine.Config{}, err
		}
		switch spec.Role {
		case provider.Gateway:
			p.Nodes = append(p.Nodes, gateway.Node{Name: m.Name, Address: m.Address})
		case provider.ControlPlane:
			p.Backends = append(p.Backends, gateway.Backend{Name: m.Name, Address: m.Address, Port: 6443})
		}
	}
	cfg, err := gateway.Config(p, gateway.Node{Name: self.Name, Address: self.Address})
	cfg.Machine = self.Name
	return cfg, err
}

func (s *side) host(ctx context.Context, name string) (remote.Host, error) {
	m, err := s.prov.Machine(ctx, name)
	return remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}, err
}
