package existing

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// listedZone is an availability zone, as the cloud lists it.
type listedZone struct {
	name string
	away bool // nothing can be made in it for now
}

// zoneNames returns the sorted names of zones; away includes zones in maintenance.
func zoneNames(zones []listedZone, away bool) []string {
	names := []string{}
	for _, z := range zones {
		if away || !z.away {
			names = append(names, z.name)
		}
	}
	slices.Sort(names)
	return names
}

// ServerZones lists the zones for servers, sorted: those in which servers can be made now or, with away, all.
func (f *Finder) ServerZones(ctx context.Context, away bool) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serverZones != nil {
		return zoneNames(f.serverZones, away), nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return nil, err
	}
	var zones struct {
		Info []struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}
	if err := cloud.Get(ctx, c.Compute, &zones, "os-availability-zone"); err != nil {
		return nil, cloud.Wrap(err, "list availability zones")
	}
	f.serverZones = []listedZone{}
	for _, z := range zones.Info {
		f.serverZones = append(f.serverZones, listedZone{z.Name, !z.State.Available})
	}
	return zoneNames(f.serverZones, away), nil
}

// VolumeZones returns the sorted zones for volumes: those in which volumes can be made now or, with away, all. Many clouds have only one.
func (f *Finder) VolumeZones(ctx context.Context, away bool) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.volumeZones != nil {
		return zoneNames(f.volumeZones, away), nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return nil, err
	}
	if c.Volume == nil {
		return nil, nil
	}
	page, err := availabilityzones.List(c.Volume).AllPages(ctx) // EachPage can't read this kind of page
	if err != nil {
		return nil, cloud.Wrap(err, "list the availability zones of volumes")
	}
	list, err := availabilityzones.ExtractAvailabilityZones(page)
	if err != nil {
		return nil, cloud.Wrap(err, "read the availability zones of volumes")
	}
	f.volumeZones = []listedZone{}
	for _, z := range list {
		f.volumeZones = append(f.volumeZones, listedZone{z.ZoneName, !z.ZoneState.Available})
	}
	return zoneNames(f.volumeZones, away), nil
}

// VolumeZoneFor returns the zone for the root volume of a machine: the volume zone with the name of the machine's zone if volumes can be made there now,
// because some clouds attach no volume from another zone; otherwise empty, and the cloud chooses.
func (f *Finder) VolumeZoneFor(ctx context.Context, machine string) (string, error) {
	if machine == "" {
		return "", nil
	}
	all, err := f.VolumeZones(ctx, false)
	if err != nil || !slices.Contains(all, machine) {
		return "", err
	}
	return machine, nil
}

// Zone returns the availability zone of a machine, from the shape's zones in turn; empty if the cloud chooses.
func Zone(s v1alpha1.MachineShape, index int) string {
	if len(s.Zones) == 0 || index < 1 {
		return ""
	}
	return s.Zones[(index-1)%len(s.Zones)]
}
