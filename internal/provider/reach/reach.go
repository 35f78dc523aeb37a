// Package reach says how machines are reached by SSH, as far as a machine itself tells.
//
// It knows machines and SSH hosts, and asks neither.
package reach

import (
	"cmp"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Host returns how a machine is reached: at its own SSH address, else outside, else at its address in the cluster; and through its jump hosts.
func Host(m provider.Machine) remote.Host {
	h := remote.Host{
		Name: m.Name, Address: cmp.Or(m.Login.Address, m.Public, m.Address), Port: m.Port, User: m.User, HostKeys: m.HostKeys,
		KeyFile: m.Login.KeyFile, MoreKeys: m.Login.MoreKeys, CertFiles: m.Login.CertFiles, Agent: m.Login.Agent, Sudo: m.Login.Sudo,
	}
	for _, j := range m.Login.Via { // the last one reaches the machine, through those before
		next := remote.Host{
			Name: j.Address, Address: j.Address, Port: j.Port, User: j.User, KeyFile: j.KeyFile, MoreKeys: j.MoreKeys, CertFiles: j.CertFiles, Agent: j.Agent, HostKeys: j.HostKeys, Via: h.Via,
		}
		h.Via = []remote.Host{next}
	}
	return h
}
