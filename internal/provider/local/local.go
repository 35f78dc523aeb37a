package local

import (
	"net/netip"
	"sync"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// Provider makes, finds and removes the machines of one cluster on this host.
type Provider struct {
	opts Options
	n    names

	agentDigest func() (string, error) // of Options.AgentBinary; read once

	mu      sync.Mutex
	subnet  netip.Prefix      // recorded, given or planned; invalid before that
	planned map[string]record // machines that Steps assigned an address, and that may not exist yet
}

var _ provider.Provider = (*Provider)(nil)

// Traits reports that machines share the host's kernel and can be switched on and off.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{SharedKernel: true, Switched: true}
}

// New returns a Provider for the cluster that opts names. It touches nothing on the host. Errors: fail.Invalid for
// impossible options, fail.Refused if the environment names no cache directory.
func New(opts Options) (*Provider, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	p := &Provider{
		opts:    opts,
		n:       names{root: opts.Root, cluster: opts.ClusterID, short: shortID(opts.ClusterID)},
		planned: map[string]record{},
	}
	p.agentDigest = sync.OnceValues(func() (string, error) { return rootfs.FileDigest(opts.AgentBinary) })
	if opts.CIDR != "" {
		subnet, err := address.ParseSubnet(opts.CIDR)
		if err != nil {
			return nil, err
		}
		p.subnet = subnet
	}
	return p, nil
}
