package dns

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/recordsets"
	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/zones"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Fields of the document that errors name.
const (
	zoneField = "spec.provider.openstack.dns.zone"
	nameField = "spec.endpoint.dnsName"
)

// Preflight checks that the wanted record can be created: that the cloud has Designate, the project has the zone, and the name is free. It makes no
// call if the record exists.
func (k *Keeper) Preflight(ctx context.Context) error {
	if k.opts.DNS == nil {
		return nil
	}
	client, err := k.client(ctx)
	if err != nil {
		return err
	}
	if mine, _ := k.own(); len(mine) > 0 {
		return nil
	}
	z, err := k.zone(ctx, client)
	if err != nil {
		return err
	}
	return k.vacant(ctx, client, z)
}

// zone finds the document's zone.
func (k *Keeper) zone(ctx context.Context, client *gophercloud.ServiceClient) (zones.Zone, error) {
	name := k.opts.DNS.ZoneName()
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return zones.Zone{}, err
	}
	me, err := c.WhoAmI()
	if err != nil {
		return zones.Zone{}, err
	}
	all, err := cloud.Pages(ctx, zones.List(client, zones.ListOpts{Name: name}), zones.ExtractZones)
	if err != nil {
		return zones.Zone{}, cloud.Wrap(err, "look for DNS zone %s", bare(name))
	}
	i := slices.IndexFunc(all, func(z zones.Zone) bool { return z.Name == name })
	switch {
	case i < 0:
		return zones.Zone{}, k.noZone(ctx, client)
	case all[i].ProjectID != "" && all[i].ProjectID != me.Project.ID:
		return all[i], fail.New(fail.Refused, "DNS zone %s belongs to project %s, and the cluster's project is %s", bare(name), all[i].ProjectID, me.Project.ID).
			At(zoneField).Do("have its owner transfer it (openstack zone transfer request create), or name a zone of the project")
	case strings.EqualFold(all[i].Type, "SECONDARY"):
		return all[i], fail.New(fail.Refused, "DNS zone %s is a secondary zone, whose records come from another server", bare(name)).
			At(zoneField).Do("name a primary zone")
	}
	return all[i], nil
}

// noZone returns the error for a zone that the project lacks, with the zones that it has.
func (k *Keeper) noZone(ctx context.Context, client *gophercloud.ServiceClient) error {
	all, err := cloud.Pages(ctx, zones.List(client, nil), zones.ExtractZones)
	if err != nil {
		return cloud.Wrap(err, "list DNS zones")
	}
	const most = 20
	var names []string
	for _, z := range all {
		names = append(names, bare(z.Name))
	}
	slices.Sort(names)
	have := strings.Join(names[:min(most, len(names))], ", ")
	switch {
	case len(names) == 0:
		have = "none"
	case len(names) > most:
		have += " and others"
	}
	return fail.New(fail.Refused, "the project has no DNS zone %s; there are: %s", bare(k.opts.DNS.ZoneName()), have).At(zoneField).
		Do("create it (openstack zone create --email MAIL %s), or name another one", k.opts.DNS.ZoneName())
}

// vacant returns an error if the API's name has an address or alias already that the cluster did not create.
func (k *Keeper) vacant(ctx context.Context, client *gophercloud.ServiceClient, z zones.Zone) error {
	all, err := cloud.Pages(ctx, recordsets.ListByZone(client, z.ID, recordsets.ListOpts{Name: k.host()}), recordsets.ExtractRecordSets)
	if err != nil {
		return cloud.Wrap(err, "list the DNS records of %s", bare(k.host()))
	}
	for _, r := range all {
		if r.Name != k.host() || r.Description == k.opts.Names.Mark() || !slices.Contains([]string{"A", "AAAA", "CNAME"}, r.Type) {
			continue
		}
		whose := "which this cluster did not create"
		if other, ok := strings.CutPrefix(r.Description, marks.KeyCluster+"="); ok {
			whose = "which belongs to cluster " + other
		}
		return fail.New(fail.Refused, "zone %s has the record %s already (%s), %s", bare(z.Name), describe(r), strings.Join(r.Records, ", "), whose).
			At(nameField).Do("remove it (openstack recordset delete %s %s), or take another name", z.Name, r.ID)
	}
	return nil
}
