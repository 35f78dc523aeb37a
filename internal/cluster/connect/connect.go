// Package connect reaches a cluster: its machines over SSH, its API through the endpoint or a machine, and its etcd through each member's machine.
package connect

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Conn connects to one cluster.
type Conn struct {
	*env.Env
	Dialer    *remote.Dialer
	mu        sync.Mutex // guards apiClient
	apiClient *kube.Client
}

// APIPort is the port of the API servers.
const APIPort = layout.APIServerPort

// Addresses returns the wanted machines with a known address, by name.
func (c *Conn) Addresses(ctx context.Context) ([]provider.Machine, error) {
	known := c.Known()
	ms := make([]provider.Machine, 0, len(known))
	for _, s := range known {
		m, err := c.Prov.Machine(ctx, s.Name)
		if err != nil && fail.KindOf(err) != fail.NotFound {
			return nil, err
		}
		if m.Address != "" {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, func(a, b provider.Machine) int { return strings.Compare(a.Name, b.Name) })
	return ms, nil
}

// Address returns a machine's address; fail.NotReady while it has none, as one that is just being replaced.
func (c *Conn) Address(ctx context.Context, name string) (string, error) {
	m, err := c.Prov.Machine(ctx, name)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return "", err
	}
	if m.Address == "" {
		return "", fail.New(fail.NotReady, "the address of machine %s is not known yet", name)
	}
	return m.Address, nil
}
