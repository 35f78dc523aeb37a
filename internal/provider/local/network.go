package local

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
)

const networkStep = "network"

// Bridge returns the name of the cluster's bridge on this host, which need not exist.
func (p *Provider) Bridge() string { return p.n.bridge() }

// subnetOf returns the cluster's subnet: the recorded one, else the one given or planned, else the invalid prefix.
// It fails with fail.Refused if the recorded subnet differs from Options.CIDR.
func (p *Provider) subnetOf() (netip.Prefix, error) {
	var r networkRecord
	err := files.ReadJSON(p.n.network(), &r)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netip.Prefix{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.opts.CIDR != "" && p.subnet != r.Subnet {
			return r.Subnet, fail.New(fail.Refused, "the cluster's machines are in %s, not in %s", r.Subnet, p.opts.CIDR).
				At(p.opts.ClusterName).Do("a local cluster's cidr can't change: put the former one back, or destroy the cluster first")
		}
		p.subnet = r.Subnet
	}
	return p.subnet, nil
}

// planSubnet is like subnetOf, but chooses a free subnet if the cluster has none yet.
func (p *Provider) planSubnet() (netip.Prefix, error) {
	subnet, err := p.subnetOf()
	if err != nil || subnet.IsValid() {
		return subnet, err
	}
	used, err := p.usedSubnets()
	if err != nil {
		return subnet, err
	}
	if subnet, err = address.ChooseSubnet(p.n.short, used); err != nil {
		return subnet, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subnet = subnet
	return subnet, nil
}

// checkNetwork lists the missing parts of the cluster's network and the host's settings that are too low. It changes nothing.
func (p *Provider) checkNetwork(ctx context.Context, subnet netip.Prefix) ([]string, error) {
	var missing []string
	add := func(ok bool, what string) {
		if !ok {
			missing = append(missing, what)
		}
	}
	_, err := os.Stat(p.n.network())
	add(err == nil, "record "+p.n.network())
	up, err := hostnet.BridgeReady(p.n.bridge(), subnet)
	if err != nil {
		return nil, err
	}
	add(up, "bridge "+p.n.bridge()+" with address "+address.Nth(subnet, address.ThisHost).String())
	table, err := hostnet.TableExists(ctx, p.n.table())
	if err != nil {
		return nil, err
	}
	add(table, "nftables table inet "+p.n.table()+": masquerade "+subnet.String())
	forward, err := hostnet.AllowForward(ctx, p.n.bridge(), p.n.table(), false)
	if err != nil {
		return nil, err
	}
	add(!forward, "iptables: accept forwarding for "+p.n.bridge()+", because the host's policy is DROP")
	low, err := shared.LowSettings()
	return append(missing, shared.Describe(low)...), err
}

// networkPlan returns the step that makes the network, or nil.
func (p *Provider) networkPlan(ctx context.Context, subnet netip.Prefix) (*plan.Step, error) {
	missing, err := p.checkNetwork(ctx, subnet)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	if servers, _, err := hostnet.Resolvers(); err != nil {
		return nil, err
	} else if len(servers) == 0 {
		missing = append(missing, "the host has no name server that machines can reach: they will resolve nothing but /etc/hosts")
	}
	action, title, reason := plan.Create, "create", "the cluster has no network yet"
	if _, err := os.Stat(p.n.network()); err == nil {
		action, title, reason = plan.Change, "complete", "part of the cluster's network is missing, as after a reboot of this host"
	}
	return &plan.Step{
		ID: networkStep, Action: action, Title: title + " network " + subnet.String(), Subject: "cluster",
		Reason: reason, Details: missing,
		Run: func(ctx context.Context, _ plan.Progress) error {
			if err := p.makeNetwork(ctx, subnet); err != nil {
				return files.MakeError(err, "make network "+subnet.String(), p.opts.ClusterName)
			}
			return nil
		},
	}, nil
}

// makeNetwork makes the parts that checkNetwork reports as missing, under the host's lock.
func (p *Provider) makeNetwork(ctx context.Context, subnet netip.Prefix) error {
	release, err := shared.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := p.checkFree(subnet); err != nil {
		return err
	}
	if err := noteRoot(p); err != nil {
		return err
	}
	if err := os.MkdirAll(p.n.machines(), 0o755); err != nil {
		return err
	}
	if err := closeRoots(p); err != nil {
		return err
	}
	if err := files.WriteJSON(p.n.network(), networkRecord{Subnet: subnet, Bridge: p.n.bridge(), Table: p.n.table()}); err != nil {
		return err
	}
	if err := shared.RaiseSettings(); err != nil {
		return err
	}
	if err := hostnet.EnsureBridge(p.n.bridge(), p.n.owner(), subnet); err != nil {
		return err
	}
	if err := hostnet.MakeTable(ctx, p.n.table(), p.n.bridge(), subnet); err != nil {
		return err
	}
	_, err = hostnet.AllowForward(ctx, p.n.bridge(), p.n.table(), true)
	return err
}

// checkFree fails with fail.Conflict if the subnet overlaps one in use, or if another cluster owns the bridge that this cluster's ID
// names. Call it under the host's lock.
func (p *Provider) checkFree(subnet netip.Prefix) error {
	if err := p.checkOwner(); err != nil {
		return err
	}
	used, err := p.usedSubnets()
	if err != nil {
		return err
	}
	u := address.Overlapping(subnet, used)
	if u == nil {
		return nil
	}
	conflict := fail.New(fail.Conflict, "subnet %s overlaps %s, which is in use", subnet, u).At(p.opts.ClusterName)
	if _, err := os.Stat(p.n.network()); err == nil {
		return conflict.Do("the cluster has this subnet already and can't change it: take the other one off this host, or destroy the cluster")
	}
	return conflict.Do("apply again: another subnet is chosen, unless the document sets the local provider's cidr")
}

// checkOwner fails with fail.Conflict if the bridge that this cluster's ID names belongs to a cluster of another state root, for
// example to a copy of this root.
func (p *Provider) checkOwner() error {
	owner, err := hostnet.OwnerOf(p.n.bridge())
	if err != nil || owner == "" || owner == p.n.owner() {
		return err
	}
	theirs, err := os.Stat(filepath.Join(owner, filepath.Base(p.n.network())))
	if err != nil {
		return files.IgnoreGone(err) // it was removed by hand
	}
	if ours, err := os.Stat(p.n.network()); err == nil && os.SameFile(ours, theirs) {
		return nil // the same root by another path
	}
	return fail.New(fail.Conflict, "bridge %s belongs to a cluster with the same ID in %s", p.n.bridge(), owner).At(p.opts.ClusterName).
		Do("remove that one first")
}

// removeNetwork removes the cluster's links, table, forwarding rules and record, and restores the host's settings if no machine needs them.
func (p *Provider) removeNetwork(ctx context.Context) error {
	release, err := shared.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := p.checkOwner(); err != nil {
		return err
	}
	links, err := hostnet.LinksOf(p.n.linkPrefix())
	if err != nil {
		return err
	}
	for _, l := range links {
		if err := hostnet.RemoveLink(l); err != nil {
			return err
		}
	}
	if err := hostnet.RemoveTable(ctx, p.n.table()); err != nil {
		return err
	}
	if err := hostnet.RemoveForward(ctx, p.n.bridge(), p.n.table()); err != nil {
		return err
	}
	if err := files.IgnoreGone(os.Remove(p.n.network())); err != nil {
		return err
	}
	return shared.RestoreSettings()
}

// networkRecord is the content of network.json.
type networkRecord struct {
	Subnet netip.Prefix `json:"subnet"`
	Bridge string       `json:"bridge"`
	Table  string       `json:"table"` // of nftables, family inet
}

// usedSubnets lists the networks that the host routes to or has addresses in, and the recorded subnets of other clusters.
// It ignores networks on the cluster's own bridge.
func (p *Provider) usedSubnets() ([]netip.Prefix, error) {
	used, err := p.recordedSubnets()
	if err != nil {
		return nil, err
	}
	routed, err := hostnet.Subnets(p.n.bridge())
	return append(used, routed...), err
}

// recordedSubnets lists the subnets of all other clusters of all state roots.
func (p *Provider) recordedSubnets() ([]netip.Prefix, error) {
	recorded, err := inRoots(p, filepath.Base(p.n.network()))
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, f := range recorded {
		var r networkRecord
		if err := files.ReadJSON(f, &r); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
				continue
			}
			return nil, err
		}
		if r.Bridge != p.n.bridge() {
			out = append(out, r.Subnet)
		}
	}
	return out, nil
}
