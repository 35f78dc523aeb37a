package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/fail"
)

// roster holds Nova's servers. It is brought up to date with those that changed: for a whole list, Nova asks Neutron for all ports and
// security groups, which each second took a quarter of a processor.
type roster struct {
	all    map[string]server
	asked  time.Time // when the last list was asked for
	listed time.Time // when the last whole one was
}

const (
	wholeList = time.Minute      // after this time the roster is not believed any more
	lateWrite = 10 * time.Second // by how much a change may show later than the time that it bears
)

// servers returns all servers, in no order.
func (c *cloud) servers(ctx context.Context) ([]server, error) {
	r, now := &c.roster, time.Now()
	o := servers.ListOpts{AllTenants: true}
	whole := now.Sub(r.listed) > wholeList
	if !whole {
		o.ChangesSince = r.asked.Add(-lateWrite).UTC().Format(time.RFC3339)
	}
	page, err := servers.List(c.compute, o).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Nova's servers")
	}
	changed, err := servers.ExtractServers(page)
	if err != nil {
		return nil, err
	}
	if r.asked = now; whole {
		r.all, r.listed = map[string]server{}, now
	}
	for _, s := range changed {
		if s.Status == "DELETED" {
			delete(r.all, s.ID)
			continue
		}
		one := server{ID: s.ID, Name: s.Name, Project: s.TenantID, Status: s.Status, Updated: s.Updated}
		if id, ok := s.Image["id"].(string); ok {
			one.Image = id
		}
		for _, v := range s.AttachedVolumes {
			one.Volumes = append(one.Volumes, v.ID)
		}
		r.all[s.ID] = one
	}
	return slices.Collect(maps.Values(r.all)), nil
}
