package bed

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Flavors: m1.* have a disk of 20 GiB, v1.* have none and boot from a volume.
var flavors = []struct {
	name            string
	cores, ram, gib int
}{
	{"m1.small", 1, 2048, 20}, {"m1.medium", 2, 4096, 20}, {"m1.large", 4, 8192, 20},
	{"v1.small", 1, 2048, 0}, {"v1.medium", 2, 4096, 0}, {"v1.large", 4, 8192, 0},
}

// Names of the bed's other resources.
const (
	Image           = "debian-12" // a mebibyte of zeros that can't boot
	ExternalNetwork = "public"
	ExternalCIDR    = "198.51.100.0/24" // floating IPs
	VolumeType      = "standard"        // the default type; FastVolumeType differs only in its name
	FastVolumeType  = "fast"
)

// seed creates what a cloud's operator would offer: flavors, image, external network, volume types, zones, quotas. It leaves existing objects
// unchanged.
func seed(ctx context.Context, b *Bed, definition string) error {
	if content(b, seeded) == definition {
		return nil
	}
	a, err := b.login(ctx)
	if err != nil {
		return err
	}
	if err := a.seedCatalog(ctx); err != nil { // an older bed's state lacks a part of the catalog
		return err
	}
	project, err := a.ensure(ctx, b.keystone()+"/projects", "projects", "project", object{"name": Cloud})
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.seedCompute(gctx) })
	g.Go(func() error { return a.seedZones(gctx) })
	g.Go(func() error { return a.seedImage(gctx) })
	g.Go(func() error { return a.seedNetwork(gctx) })
	g.Go(func() error { return a.seedVolumeTypes(gctx) })
	g.Go(func() error { return a.quotas(gctx, project) })
	g.Go(func() error { return seedZone(gctx, b) })
	if err := g.Wait(); err != nil {
		return err
	}
	b.say("flavors, image, networks, zones, DNS and quotas made")
	return mark(b, seeded, definition)
}

func (a *admin) seedCompute(ctx context.Context) error {
	for _, f := range flavors {
		if _, err := a.ensure(ctx, a.b.nova()+"/flavors", "flavors", "flavor", object{"name": f.name, "vcpus": f.cores, "ram": f.ram, "disk": f.gib}); err != nil {
			return err
		}
	}
	return nil
}

// seedZones moves hosts from the default zone to their own zones once Nova knows the hosts.
func (a *admin) seedZones(ctx context.Context) error {
	err := tool.Until(ctx, waitPace, func() (bool, error) {
		return count(ctx, a.b, len(Hosts), "nova_api", "SELECT COUNT(*) FROM host_mappings")
	})
	if err != nil {
		return fail.Wrap(fail.NotReady, err, "wait until Nova has found its %d hosts", len(Hosts))
	}
	for _, h := range Hosts {
		if h.Zone == "nova" {
			continue
		}
		id, err := a.ensure(ctx, a.b.nova()+"/os-aggregates", "aggregates", "aggregate", object{"name": h.Zone, "availability_zone": h.Zone})
		if err != nil {
			return err
		}
		_, err = a.call(ctx, http.MethodPost, a.b.nova()+"/os-aggregates/"+id+"/action", object{"add_host": object{"host": h.Name}}, nil)
		if err != nil && !strings.Contains(err.Error(), "409 Conflict") { // the host is in the zone already
			return err
		}
	}
	return nil
}

func (a *admin) seedImage(ctx context.Context) error {
	url := a.b.glance() + "/images"
	id, err := a.ensure(ctx, url+"?name="+Image, "images", "", object{ // without the name, Glance returns only the newest 25
		"name": Image, "disk_format": "raw", "container_format": "bare", "visibility": "public", "min_disk": 1, "os_distro": "debian", "os_version": "12",
	})
	if err != nil {
		return err
	}
	var image object
	if _, err := a.call(ctx, http.MethodGet, url+"/"+id, nil, &image); err != nil || image["status"] == "active" {
		return err
	}
	_, err = a.call(ctx, http.MethodPut, url+"/"+id+"/file", make([]byte, 1<<20), nil)
	return err
}

func (a *admin) seedNetwork(ctx context.Context) error {
	id, err := a.ensure(ctx, a.b.neutron()+"/networks", "networks", "network", object{
		"name": ExternalNetwork, "router:external": true, "provider:network_type": "flat", "provider:physical_network": "external",
	})
	if err != nil {
		return err
	}
	_, err = a.ensure(ctx, a.b.neutron()+"/subnets", "subnets", "subnet", object{
		"name": ExternalNetwork, "network_id": id, "ip_version": 4, "cidr": ExternalCIDR, "enable_dhcp": false,
	})
	return err
}

func (a *admin) seedVolumeTypes(ctx context.Context) error {
	for _, name := range []string{VolumeType, FastVolumeType} {
		url := a.b.cinder(a.project) + "/types"
		if _, err := a.ensure(ctx, url, "volume_types", "volume_type", object{"name": name}); err != nil {
			return err
		}
	}
	return nil
}

// quotas raises a project's quotas for the largest cluster of the tests.
func (a *admin) quotas(ctx context.Context, project string) error {
	for _, q := range []struct {
		url, key string
		limits   object
	}{
		{a.b.nova() + "/os-quota-sets/" + project, "quota_set", object{
			"instances": 100, "cores": 400, "ram": 4 << 20, "server_groups": 100, "server_group_members": 100, "key_pairs": 100,
		}},
		{a.b.cinder(a.project) + "/os-quota-sets/" + project, "quota_set", object{"volumes": 500, "gigabytes": 20000, "snapshots": 100}},
		{a.b.neutron() + "/quotas/" + project, "quota", object{
			"port": 2000, "security_group": 200, "security_group_rule": 2000, "network": 100, "subnet": 100, "router": 50, "floatingip": 100,
		}},
		{a.b.octavia() + "/lbaas/quotas/" + project, "quota", object{
			"load_balancer": 50, "listener": 200, "pool": 200, "member": 2000, "health_monitor": 200,
		}},
	} {
		if _, err := a.call(ctx, http.MethodPut, q.url, object{q.key: q.limits}, nil); err != nil {
			return fmt.Errorf("set quotas: %w", err)
		}
	}
	return nil
}
