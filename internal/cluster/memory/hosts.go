package memory

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/naupegos/naupegos/internal/provider"
)

// Hosts keeps the hosts that were worked on among the cluster's facts.
type Hosts struct{ Facts *Facts }

// Known lists the hosts.
func (h Hosts) Known() []provider.Machine {
	var list []provider.Machine
	for _, value := range h.Facts.Each(Host) {
		var m provider.Machine
		if json.Unmarshal([]byte(value), &m) == nil { // our own format
			list = append(list, m)
		}
	}
	return list
}

// Forget drops a host that was cleaned.
func (h Hosts) Forget(ctx context.Context, name string) error {
	return h.Facts.SetOf(ctx, Host, name, "")
}

// HostKeys keeps pinned SSH host keys among the cluster's facts: a cloud serves a machine's first console lines only for some time.
type HostKeys struct{ Facts *Facts }

// Get returns the keys pinned for a server.
func (h HostKeys) Get(id string) []string {
	return strings.FieldsFunc(h.Facts.Of(ConsoleKeys, id), func(r rune) bool { return r == '\n' })
}

// Set pins a server's keys, or removes them if keys is empty.
func (h HostKeys) Set(ctx context.Context, id string, keys []string) error {
	return h.Facts.SetOf(ctx, ConsoleKeys, id, strings.Join(keys, "\n"))
}
