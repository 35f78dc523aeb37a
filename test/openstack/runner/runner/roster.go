package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/fail"
)

// roster caches Nova's servers and queries only those that changed. For a full list, Nova asks Neutron for all ports and security groups; once a
// second, that took a quarter of a processor.
type roster struct {
	all    map[string]server
	asked  time.Time // time of the last request
	listed time.Time // time of the last full list
}

const (
	wholeList = time.Minute      // age at which the roster is replaced by a full list
	lateWrite = 10 * time.Second // maximum delay between a change's timestamp and its appearance in lists
)

// servers returns all servers in random order.
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
