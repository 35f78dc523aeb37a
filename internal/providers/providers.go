// Package providers creates the provider that a document names.
package providers

import (
	"context"
	"net/netip"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/hosts"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/provider/openstack"
	"github.com/naupegos/naupegos/internal/store"
)

// Options holds the dependencies of providers.
type Options struct {
	Document  *v1alpha1.Cluster
	ClusterID string
	Bundle    *bundle.Bundle          // nil if it is not available: then nothing can be made
	AgentPath string                  // local path of naupegos-agent
	PublicKey string                  // that machines accept, as a line of authorized_keys
	Home      string                  // the cluster's place in its cloud; empty if not known yet
	SSHKeys   []string                // Naupegos' keys and those of people
	Runner    hosts.Runner            // runs commands on hosts
	Hosts     hosts.Memory            // which hosts are in use
	HostKeys  openstack.HostKeyMemory // SSH host keys that were read from consoles
	Store     store.Store             // records physical machines

	CloudLogin func(context.Context) (provider.NamedCloud, error) // reads the credential that the document names; nil: it names none
	BMCs       func(netip.Addr) bool                              // whether a machine's BMC may have an address; nil: every address is allowed
	Closed     bool                                               // never log in with files and variables of this host, only with a credential that the document names
}

// New returns the provider that the document names, or fail.Invalid if this version does not have it.
func New(o Options) (provider.Provider, error) {
	switch spec := o.Document.Spec.Provider; {
	case spec.Local != nil:
		return local.New(local.Options{
			ClusterID: o.ClusterID, ClusterName: o.Document.Metadata.Name, Suite: spec.Local.Image.Suite, CIDR: spec.Local.Network.CIDR,
			Bundle: o.Bundle, AgentBinary: o.AgentPath, SSHPublicKeys: []string{o.PublicKey},
			Timeouts: local.Timeouts{Boot: o.Document.Spec.Timeouts.MachineBoot.Duration},
		})
	case spec.Hosts != nil:
		return hosts.New(o.Document, o.Runner, o.Hosts), nil
	case spec.OpenStack != nil:
		with := openstack.Options{Cluster: o.Document, ClusterID: o.ClusterID, PublicKey: o.PublicKey, HostKeys: o.HostKeys, Home: o.Home, Login: o.CloudLogin, Closed: o.Closed}
		if o.Bundle != nil {
			with.BundleID = o.Bundle.ID
		}
		return openstack.New(with)
	case spec.Metal != nil:
		return newMetal(o)
	}
	return nil, fail.New(fail.Invalid, "spec.provider names no provider that this version knows").Do("use local, hosts, openstack or metal")
}
