package render

import (
	"context"
	"net/netip"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/cluster/wireguard"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/reach"
)

// RenderGateway renders a gateway.
func (c *Renderer) RenderGateway(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	ca, err := c.PKI.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	vip, err := c.VIP(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	p := gateway.Params{
		ClusterName: c.Name(), ClusterID: c.Record.ID, VIP: vip, Port: c.Doc.Spec.Endpoint.Port, Interface: f.Interface,
		CACert: ca, Relayed: wanted.Relayed(c.Known()),
	}
	if p.Fronts, err = c.IngressFronts(ctx); err != nil {
		return machine.Config{}, err
	}
	for _, m := range c.Known() {
		if m.Role == provider.Worker {
			continue
		}
		addr, err := c.Address(ctx, m.Name)
		if err != nil {
			return machine.Config{}, err
		}
		if m.Role == provider.Gateway {
			p.Nodes = append(p.Nodes, gateway.Node{Name: m.Name, Address: addr})
		} else {
			p.Backends = append(p.Backends, gateway.Backend{Name: m.Name, Address: addr, Port: connect.APIPort})
		}
	}
	self, err := c.Address(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	if link, ok := f.AttachmentOf(self); ok { // the gateways hear each other, and neighbours the virtual address, where the machines' network is
		p.Interface = link.Interface
	}
	if p.Interface == "" {
		return machine.Config{}, fail.New(fail.Refused, "no interface has its address %s, and it has no default route, so that there is none for the virtual address", self).At(s.Name).
			Do("give the machine the address that it has on its own interface")
	}
	conf, err := gateway.Config(p, gateway.Node{Name: s.Name, Address: self})
	if err != nil || c.Doc.Spec.Access.WireGuard == nil {
		return conf, err
	}
	peers, err := c.WireGuardLayer(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Merge(conf, peers)
}

// IngressFronts returns the ports of web traffic that gateways pass to the workers. It leaves out a worker without an address, which may never come:
// the API is behind the same gateways. Gateways would also restart twice for a worker that exists only while its pool changes.
func (c *Renderer) IngressFronts(ctx context.Context) ([]gateway.Front, error) {
	in := c.Doc.Spec.Endpoint.IngressWanted()
	if in == nil {
		return nil, nil
	}
	web := gateway.Front{Name: "ingress-http", Port: v1alpha1.HTTPPort}
	tls := gateway.Front{Name: "ingress-https", Port: v1alpha1.HTTPSPort}
	for _, s := range wanted.Own(c.Known()) {
		if s.Role != provider.Worker {
			continue
		}
		name := s.Name
		addr, err := c.Address(ctx, name)
		if fail.KindOf(err) == fail.NotReady {
			continue
		}
		if err != nil {
			return nil, err
		}
		web.Backends = append(web.Backends, gateway.Backend{Name: name, Address: addr, Port: in.HTTPNodePort})
		tls.Backends = append(tls.Backends, gateway.Backend{Name: name, Address: addr, Port: in.HTTPSNodePort})
	}
	return []gateway.Front{web, tls}, nil
}

// WireGuard is the cluster's WireGuard network.
func (c *Renderer) WireGuard() wireguard.Network {
	return wireguard.Network{Spec: c.Doc.Spec.Access.WireGuard, Cluster: c.Name(), Gateways: c.Gateways(), Facts: c.Facts, Secrets: c.Secrets}
}

// WireGuardLayer renders a gateway's WireGuard for peers of the machines' network; nothing if the document has none. It creates and remembers missing
// addresses and keys.
func (c *Renderer) WireGuardLayer(ctx context.Context, name string) (machine.Config, error) {
	if c.Doc.Spec.Access.WireGuard == nil {
		return machine.Config{Machine: name}, nil
	}
	return c.WireGuard().Gateway(ctx, name, c.WireGuardReach)
}

// networked is a provider that knows the network of its machines; the network is invalid if it does not exist yet.
type networked interface {
	Network(ctx context.Context) (netip.Prefix, error)
}

// WireGuardReach returns the addresses that peers may reach: the machines' network or, if it is unknown, each machine. Pods and Services are not
// included, because gateways are not nodes and have no route to them.
func (c *Renderer) WireGuardReach(ctx context.Context) ([]string, error) {
	p := c.Doc.Spec.Provider
	switch {
	case p.OpenStack != nil && p.OpenStack.Network.CIDR != "":
		return []string{p.OpenStack.Network.CIDR}, nil
	case p.Local != nil && p.Local.Network.CIDR != "":
		return []string{p.Local.Network.CIDR}, nil
	}
	if n, ok := c.Prov.(networked); ok {
		prefix, err := n.Network(ctx)
		if err != nil || prefix.IsValid() {
			return []string{prefix.String()}, err
		}
	}
	machines, err := c.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	var reach []string
	for _, m := range machines {
		reach = append(reach, m.Address+"/32")
	}
	if vip, err := c.Prov.VIP(ctx); err == nil {
		reach = append(reach, vip+"/32")
	} else if fail.KindOf(err) != fail.NotFound {
		return nil, err
	}
	slices.Sort(reach)
	return slices.Compact(reach), nil
}

// RotateWireGuard creates new keys for all gateways, and for the peers whose keys Naupegos generated, and returns their names. The next apply
// installs them on the gateways, which invalidates all earlier client configurations.
func (c *Renderer) RotateWireGuard(ctx context.Context) ([]string, error) {
	if c.Doc.Spec.Access.WireGuard == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no WireGuard", c.Name()).Do("spec.access.wireguard in its document turns it on")
	}
	if err := c.LoadTarget(ctx); err != nil {
		return nil, err
	}
	return c.WireGuard().Rotate(ctx)
}

// WireGuardClients renders a configuration for each peer and gateway, by file name ("anna-demo-gw-1.conf"). The configurations contain the
// private keys of peers whose keys Naupegos generated. It returns fail.NotReady if a gateway or peer was not applied yet.
func (c *Renderer) WireGuardClients(ctx context.Context) (map[string][]byte, error) {
	if c.Doc.Spec.Access.WireGuard == nil {
		return nil, nil
	}
	if err := c.LoadTarget(ctx); err != nil {
		return nil, err
	}
	reachable, err := c.WireGuardReach(ctx)
	if err != nil {
		return nil, err
	}
	return c.WireGuard().Clients(ctx, reachable, func(ctx context.Context, name string) (string, error) {
		m, err := c.Prov.Machine(ctx, name)
		return reach.Host(m).Address, err
	})
}
