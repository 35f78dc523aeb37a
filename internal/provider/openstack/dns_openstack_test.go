//go:build openstack

package openstack

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/recordsets"
	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/zones"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// resolver asks the bed's BIND.
func resolver(b *bed.Bed) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(b.Address(), "53"))
	}}
}

// TestDNSLife: in a real Designate, the record of the API's name comes with the cluster, is corrected, moves to another name and goes, and BIND answers
// accordingly at the end of each run. A record of others stays, and is not taken over.
func TestDNSLife(t *testing.T) {
	b := useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	const name, id, zone = "t3-dns", "t3-dns-0badc0de", "example.org"
	base := strings.NewReplacer("replicas: 1, machine", "replicas: 1, schedulable: true, machine", "  workers:\n    - {name: w, replicas: 1}\n", "").Replace(smallSpec)
	document := func(endpoint string) string {
		return strings.NewReplacer("      trustOnFirstUse", "      dns: {zone: "+zone+"}\n      trustOnFirstUse", "{kind: direct}", "{kind: direct"+endpoint+"}").Replace(base)
	}
	plain := testDocument(t, name, base)
	clean(t, plain, id)
	lookup := func(host string) []string {
		t.Helper()
		found, err := resolver(b).LookupHost(ctx, host)
		if dns := new(net.DNSError); err != nil && (!errors.As(err, &dns) || !dns.IsNotFound) {
			t.Errorf("ask BIND for %s: %v", host, err)
		}
		return found
	}
	run := func(spec string) *Provider {
		t.Helper()
		doc := testDocument(t, name, spec)
		p, calls := testProvider(t, doc, id, patient)
		_, err := p.Observe(ctx)
		testkit.Must(t, err)
		testkit.Must(t, p.Preflight(ctx, wanted(doc)))
		began := time.Now()
		testkit.Must(t, apply(ctx, p))
		t.Logf("%d calls, %s", calls.n.Load(), time.Since(began).Round(100*time.Millisecond))
		nothingToDo(ctx, t, doc, id)
		return p
	}
	const host = "api." + name + "." + zone
	p := run(document(""))
	m, err := p.Machine(ctx, name+"-cp-1")
	testkit.Must(t, err)
	if got := lookup(host); !slices.Equal(got, []string{m.Public}) {
		t.Errorf("BIND leads %s to %v, the API's address is %s", host, got, m.Public)
	}

	client := testkit.Value(p.session.c.DNS())(t)
	zones := testkit.Value(cloud.Pages(ctx, zones.List(client, zones.ListOpts{Name: bed.Zone}), zones.ExtractZones))(t)
	own := testkit.Value(cloud.Pages(ctx, recordsets.ListByZone(client, zones[0].ID, recordsets.ListOpts{Name: host + "."}), recordsets.ExtractRecordSets))(t)
	if len(own) != 1 || own[0].Description != "naupegos-cluster="+id || own[0].TTL != 60 {
		t.Fatalf("records are %+v", own)
	}
	testkit.Must(t, recordsets.Update(ctx, client, zones[0].ID, own[0].ID, recordsets.UpdateOpts{Records: []string{"203.0.113.66"}}).Err)
	run(document(""))
	if got := lookup(host); !slices.Equal(got, []string{m.Public}) {
		t.Errorf("a record that was changed by hand leads to %v", got)
	}

	theirs := testkit.Value(recordsets.Create(ctx, client, zones[0].ID, recordsets.CreateOpts{Name: "theirs." + name + "." + bed.Zone, Type: "CNAME", Records: []string{"www." + bed.Zone}}).Extract())(t)
	t.Cleanup(func() { recordsets.Delete(context.Background(), client, zones[0].ID, theirs.ID) })
	bad := testDocument(t, name, document(", dnsName: theirs."+name+"."+zone))
	p, _ = testProvider(t, bad, id)
	_, err = p.Observe(ctx)
	testkit.Must(t, err)
	testkit.Fails(t, p.Preflight(ctx, wanted(bad)), fail.Refused, "has the record CNAME theirs."+name+"."+zone, "which this cluster did not create", theirs.ID)

	run(document(", dnsName: k8s." + name + "." + zone))
	if got, former := lookup("k8s."+name+"."+zone), lookup(host); !slices.Equal(got, []string{m.Public}) || len(former) > 0 {
		t.Errorf("the new name leads to %v, the former one to %v", got, former)
	}
	run(base)
	if got := lookup("k8s." + name + "." + zone); len(got) > 0 {
		t.Errorf("without the field, the name leads to %v", got)
	}
	p = run(document(""))
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, plain, id)
	if got := lookup(host); len(got) > 0 {
		t.Errorf("after the destruction, %s leads to %v", host, got)
	}
	testkit.Must(t, recordsets.Get(ctx, client, zones[0].ID, theirs.ID).Err)

	gone := testDocument(t, name, strings.Replace(document(""), "zone: "+zone, "zone: gone.test", 1))
	p, _ = testProvider(t, gone, id)
	_, err = p.Observe(ctx)
	testkit.Must(t, err)
	testkit.Fails(t, p.Preflight(ctx, wanted(gone)), fail.Refused, "no DNS zone gone.test; there are: "+zone)
}

// TestCredentialForRealDesignate: with external-dns in the document, the cluster's credential makes and removes records in the project's zone, and no zones.
func TestCredentialForRealDesignate(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	doc := testDocument(t, "t3-names", smallSpec)
	doc.Spec.Addons = []v1alpha1.Addon{{Name: v1alpha1.AddonExternalDNS, ExternalDNS: &v1alpha1.ExternalDNS{Designate: &v1alpha1.Designate{Zones: []string{"example.org"}}}}}
	p, _ := testProvider(t, doc, "t3-names-0badc0de")
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if _, err := p.PruneCloudCredentials(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cred, err := p.NewCloudCredential(ctx, "")
	testkit.Must(t, err)
	if !cred.Bounded || !cred.DNS {
		t.Fatalf("the credential is not bounded: %s", cred.Reach)
	}
	client := *testkit.Value(c.DNS())(t)
	if client.ProviderClient, err = signIn(ctx, c, cred); err != nil {
		t.Fatal(err)
	}
	all := testkit.Value(cloud.Pages(ctx, zones.List(&client, zones.ListOpts{Name: bed.Zone}), zones.ExtractZones))(t)
	made := testkit.Value(recordsets.Create(ctx, &client, all[0].ID, recordsets.CreateOpts{Name: "shop.t3-names." + bed.Zone, Type: "A", Records: []string{"198.51.100.9"}}).Extract())(t)
	testkit.Must(t, recordsets.Update(ctx, &client, all[0].ID, made.ID, recordsets.UpdateOpts{Records: []string{"198.51.100.10"}}).Err)
	testkit.Value(cloud.Pages(ctx, recordsets.ListByZone(&client, all[0].ID, recordsets.ListOpts{Limit: 1000}), recordsets.ExtractRecordSets))(t)
	testkit.Must(t, recordsets.Delete(ctx, &client, all[0].ID, made.ID).ExtractErr())
	if err := zones.Create(ctx, &client, zones.CreateOpts{Name: "t3-names.test.", Email: "hostmaster@example.org"}).Err; cloud.Status(err) != http.StatusUnauthorized {
		t.Errorf("the credential may make zones: %v", err)
	}
}
