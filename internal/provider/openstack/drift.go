package openstack

import (
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Drift lists for each wanted machine the differences from its pool's shape that require a new machine: flavor, image, root volume. A zone
// that is no longer wanted is no drift.
func (p *Provider) Drift(want provider.Wanted, _ *provider.Inventory) map[string][]string {
	out := map[string][]string{}
	for _, m := range want.Machines {
		s, ok := p.serverOf(m.Name)
		if !ok {
			continue
		}
		if d := marks.Drift(s.Metadata[marks.Underscored(marks.KeyShape)], p.shape(m.Role, m.Pool)); len(d) > 0 {
			out[m.Name] = d
		}
	}
	return out
}
