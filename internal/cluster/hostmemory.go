package cluster

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// hostMemory keeps the hosts that were worked on among the cluster's facts.
type hostMemory struct{ facts *facts }

// Known lists the hosts.
func (h hostMemory) Known() []provider.Machine {
	var list []provider.Machine
	for _, value := range h.facts.each(factHost) {
		var m provider.Machine
		if json.Unmarshal([]byte(value), &m) == nil { // what we wrote ourselves
			list = append(list, m)
		}
	}
	return list
}

// Forget drops a host that was cleaned.
func (h hostMemory) Forget(ctx context.Context, name string) error {
	return h.facts.setOf(ctx, factHost, name, "")
}

// rememberHost notes, before anything is put on it, that a host given by address is in use.
func (c *Cluster) rememberHost(ctx context.Context, name string) error {
	if !c.prov.Traits().Given {
		return nil
	}
	m, err := c.prov.Machine(ctx, name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember host %s", name)
	}
	return c.facts.setOf(ctx, factHost, name, string(data))
}

// hostKeyMemory keeps pinned SSH host keys among the cluster's facts: a cloud serves a machine's first console lines only for some time.
type hostKeyMemory struct{ facts *facts }

// Get returns the keys pinned for a server; none where none are known.
func (h hostKeyMemory) Get(id string) []string {
	return strings.FieldsFunc(h.facts.of(factConsoleKeys, id), func(r rune) bool { return r == '\n' })
}

// Set pins a server's keys, or forgets them where there are none.
func (h hostKeyMemory) Set(ctx context.Context, id string, keys []string) error {
	return h.facts.setOf(ctx, factConsoleKeys, id, strings.Join(keys, "\n"))
}
