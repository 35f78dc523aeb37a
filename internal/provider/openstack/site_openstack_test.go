//go:build openstack

package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSite: what a site adds to a cluster comes with it, changes in place, and goes, in a real cloud; the user's own network and security group stay.
func TestSite(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	const name, id = "t3-site", "t3-site-0badc0de"
	base := strings.NewReplacer("replicas: 1, machine", "replicas: 1, schedulable: true, machine", "  workers:\n    - {name: w, replicas: 1}\n", "").Replace(smallSpec)
	document := func(site, machine string) string {
		return strings.Replace(strings.Replace(base, "rootVolumeGiB: 1", "rootVolumeGiB: 1"+machine, 1), "      trustOnFirstUse", site+"      trustOnFirstUse", 1)
	}
	first, _ := testProvider(t, testDocument(t, name, base), id)
	external, err := first.existing.External(ctx)
	testkit.Must(t, err)
	g := give(ctx, t, first.session.c, id+"x", external)
	web, err := groups.Create(ctx, g.c.Network, groups.CreateOpts{Name: id + "web", Description: "a user's"}).Extract()
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := groups.Delete(context.Background(), g.c.Network, web.ID).ExtractErr(); err != nil {
			t.Errorf("remove the security group: %v", err)
		}
	})
	before := g.look(ctx, t)
	full := testDocument(t, name, document("      tags: [team=storage, prod]\n      metadata: {owner: me}\n      loadBalancerClasses: [{name: inner, network: "+id+"x, subnet: 10.82.1.0/24}]\n",
		", securityGroups: ["+id+"web], networks: [{network: "+id+"x, subnet: 10.82.1.0/24}], volumes: [{name: data, sizeGiB: 1}]"))
	clean(t, full, id)
	run := func(spec string, consents ...string) *Provider {
		t.Helper()
		doc := full
		if spec != "" {
			doc = testDocument(t, name, spec)
		}
		p, calls := testProvider(t, doc, id, patient)
		_, err := p.Observe(ctx)
		testkit.Must(t, err)
		testkit.Must(t, p.Preflight(ctx, wanted(doc)))
		began := time.Now()
		testkit.Must(t, applyWith(ctx, p, consents...))
		t.Logf("%d calls, %s", calls.n.Load(), time.Since(began).Round(100*time.Millisecond))
		nothingToDo(ctx, t, doc, id)
		p, _ = testProvider(t, doc, id)
		_, err = p.Observe(ctx)
		testkit.Must(t, err)
		return p
	}
	const machine = name + "-cp-1"
	state := func(p *Provider) (servers.Server, ports.Port, map[string]int) {
		t.Helper()
		s, _ := p.serverOf(machine)
		o, _ := p.portOf(machine)
		sizes := map[string]int{}
		for _, v := range p.volumes.DataOf(machine) {
			if volume.AttachedTo(v, s.ID) && v.Metadata["owner"] == p.spec().Metadata["owner"] {
				sizes[volume.Name(v)] = v.Size
			}
		}
		return s, o, sizes
	}
	p := run("")
	made, port, sizes := state(p)
	if !slices.Contains(*made.Tags, "prod") || made.Metadata["owner"] != "me" || !slices.Contains(port.Tags, "team=storage") || !slices.Contains(port.SecurityGroups, web.ID) ||
		sizes["data"] != 1 || len(nicsOf(p, machine)) != 1 || nicsOf(p, machine)[0].DeviceID != made.ID {
		t.Fatalf("server %v %v, port %v %v, volumes %v, %d more ports", *made.Tags, made.Metadata, port.Tags, port.SecurityGroups, sizes, len(nicsOf(p, machine)))
	}
	info, err := p.CloudInfo(ctx)
	testkit.Must(t, err)
	if len(info.BalancerClasses) != 1 || info.BalancerClasses[0].SubnetID != g.subnets[0] {
		t.Errorf("classes are %+v", info.BalancerClasses)
	}

	p = run(document("      tags: [prod]\n      metadata: {owner: you, tier: one}\n", ", portSecurity: false, volumes: [{name: data, sizeGiB: 2}, {name: log, sizeGiB: 1}]"))
	s, port, sizes := state(p)
	if s.ID != made.ID || slices.Contains(*s.Tags, "team=storage") || s.Metadata["tier"] != "one" || slices.Contains(port.Tags, "team=storage") || len(port.SecurityGroups) != 0 ||
		sizes["data"] != 2 || sizes["log"] != 1 {
		t.Errorf("changed: server %v %v, port %v %v, volumes %v", *s.Tags, s.Metadata, port.Tags, port.SecurityGroups, sizes)
	}

	p = run(document("", ""), provider.ConsentVolumes)
	s, port, sizes = state(p)
	if s.ID != made.ID || slices.Contains(*s.Tags, "prod") || s.Metadata["owner"] != "" || len(port.SecurityGroups) != 1 || len(sizes) != 0 {
		t.Errorf("taken back: server %v %v, port %v %v, volumes %v", *s.Tags, s.Metadata, port.Tags, port.SecurityGroups, sizes)
	}
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, full, id)
	if after := g.look(ctx, t); after != before {
		t.Errorf("the user's network was\n%s\nand is\n%s", before, after)
	}
}
