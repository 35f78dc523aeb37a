package openstack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/dns"
	"github.com/naupegos/naupegos/internal/testkit"
)

// dnsDocument is a small document with a record of the API's name in zone example.org, and further settings of the record.
func dnsDocument(t *testing.T, more string) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.NewReplacer("v1.small", "m1.small", "      externalNetwork:", "      dns: {zone: example.org"+more+"}\n      externalNetwork:").Replace(smallSpec))
}

// records lists the cluster's records and others': "A api.t3-life.example.org. [198.51.100.7] 60 ACTIVE".
func (f *fakeCloud) records() []string {
	var out []string
	for _, t := range f.kinds["recordsets"] {
		out = append(out, fmt.Sprint(t["type"], " ", t["name"], " ", t["records"], " ", t["ttl"], " ", t["status"]))
	}
	slices.Sort(out)
	return out
}

func wantRecords(t *testing.T, f *fakeCloud, want ...string) {
	t.Helper()
	if got := f.records(); !slices.Equal(got, want) {
		t.Errorf("records: %q, want %q", got, want)
	}
}

// dnsStep returns the planned step of the record; nil if there is none.
func dnsStep(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster) *plan.Step {
	t.Helper()
	steps := siteSteps(t, f, doc)
	if i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == dns.StepID }); i >= 0 {
		return steps[i]
	}
	return nil
}

// TestDNSRecord: the record of the API's name is created, follows the address, the time to live, the name and the zone, and is removed when the
// document or the cluster is. Records of others stay.
func TestDNSRecord(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	zone := f.addZone("example.org.")
	f.addZone("example.net.")
	f.addRecord(zone, "A", "api.t3-life.example.org.x.example.org.", "naupegos-cluster=t3-life-0badc0de0")
	const strangers = "A api.t3-life.example.org.x.example.org. [192.0.2.1] 300 ACTIVE"

	doc := dnsDocument(t, "")
	if s := dnsStep(t, f, doc); s == nil || s.Action != plan.Create || !slices.Contains(s.Details, "api.t3-life.example.org leads to the API's address, for 60 s, in zone example.org") {
		t.Errorf("the first plan has %+v", s)
	}
	siteApply(t, f, doc)
	address := f.kinds["floatingips"][0].str("floating_ip_address")
	mine := "A api.t3-life.example.org. [" + address + "] 60 ACTIVE"
	wantRecords(t, f, mine, strangers)
	if inv := testkit.Value(fakeProvider(t, f, doc).Observe(t.Context()))(t); !slices.Contains(inv.Others, "DNS record A api.t3-life.example.org") {
		t.Errorf("the record is not among %v", inv.Others)
	}

	record := f.kinds["recordsets"][1]
	record["records"] = []any{"203.0.113.66"}
	if s := dnsStep(t, f, doc); s == nil || s.Action != plan.Change || s.Reason != "it leads to 203.0.113.66, the API's address is "+address {
		t.Errorf("a record that was changed by hand: %+v", s)
	}
	siteApply(t, f, doc)
	wantRecords(t, f, mine, strangers)

	siteApply(t, f, dnsDocument(t, ", ttl: 10m"))
	wantRecords(t, f, strings.Replace(mine, " 60 ", " 600 ", 1), strangers)

	other := dnsDocument(t, "")
	other.Spec.Endpoint.DNSName = "k8s.example.net"
	other.Spec.Provider.OpenStack.DNS.Zone = "example.net."
	if s := dnsStep(t, f, other); s == nil || !slices.Contains(s.Details, "remove A api.t3-life.example.org from zone example.org") {
		t.Errorf("another name: %+v", s)
	}
	siteApply(t, f, other)
	wantRecords(t, f, strangers, "A k8s.example.net. ["+address+"] 60 ACTIVE")

	siteApply(t, f, fakeDocument(t))
	wantRecords(t, f, strangers)

	siteApply(t, f, doc)
	testkit.Must(t, destroy(t.Context(), fakeProvider(t, f, fakeDocument(t))))
	wantRecords(t, f, strangers)
}

// TestDNSAddress: the record has the address at which clients outside reach the API.
func TestDNSAddress(t *testing.T) {
	useFake(t)
	for kind, address := range map[string]func(*fakeCloud) string{
		"direct":                                func(f *fakeCloud) string { return f.kinds["floatingips"][0].str("floating_ip_address") },
		"gateways, gateways: {replicas: 1}":     func(f *fakeCloud) string { return f.floatingOf("vip") },
		"octavia":                               func(f *fakeCloud) string { return f.floatingOf("api") },
		"octavia, octavia: {internal: true}":    func(f *fakeCloud) string { return f.kinds["loadbalancers"][0].str("vip_address") },
		"octavia, floatingIP: 198.51.100.251":   func(*fakeCloud) string { return "198.51.100.251" },
		"direct, dnsName: here.api.example.org": func(f *fakeCloud) string { return f.kinds["floatingips"][0].str("floating_ip_address") },
		"octavia, dnsName: example.org":         func(f *fakeCloud) string { return f.floatingOf("api") },
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFakeCloud()
			f.addZone("example.org.")
			if strings.Contains(kind, "floatingIP") {
				f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project})
			}
			spec := strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{kind: "+kind+"}",
				"      externalNetwork:", "      dns: {zone: example.org}\n      externalNetwork:").Replace(smallSpec)
			doc := testDocument(t, "t3-life", spec)
			siteApply(t, f, doc)
			wantRecords(t, f, "A "+doc.Spec.Endpoint.DNSName+". ["+address(f)+"] 60 ACTIVE")
		})
	}
}

// floatingOf returns the floating IP with this role.
func (f *fakeCloud) floatingOf(role string) string {
	for _, t := range f.kinds["floatingips"] {
		if tags, _ := t["tags"].([]any); slices.Contains(tags, any("naupegos-role="+role)) {
			return t.str("floating_ip_address")
		}
	}
	return ""
}

// TestDNSRefused: a plan refuses a record that can't be created, names the field and the remedy, and creates nothing.
func TestDNSRefused(t *testing.T) {
	useFake(t)
	const name = "api.t3-life.example.org."
	for what, x := range map[string]struct {
		cloud func(f *fakeCloud)
		want  []string
	}{
		"no Designate":   {func(*fakeCloud) {}, []string{"spec.provider.openstack.dns", "dns service", "create the record of the API's name yourself"}},
		"no zone":        {func(f *fakeCloud) { f.addZone("example.com."); f.addZone("b.org.") }, []string{"spec.provider.openstack.dns.zone", "no DNS zone example.org; there are: b.org, example.com", "openstack zone create"}},
		"no zones":       {func(f *fakeCloud) { f.kinds["zones"] = []thing{} }, []string{"no DNS zone example.org; there are: none"}},
		"another's zone": {func(f *fakeCloud) { f.addZone("example.org.")["project_id"] = "other" }, []string{"spec.provider.openstack.dns.zone", "belongs to project other", "transfer"}},
		"secondary":      {func(f *fakeCloud) { f.addZone("example.org.")["type"] = "SECONDARY" }, []string{"secondary zone", "name a primary zone"}},
		"record":         {func(f *fakeCloud) { f.addRecord(f.addZone("example.org."), "A", name, "") }, []string{"spec.endpoint.dnsName", "has the record A api.t3-life.example.org already (192.0.2.1), which this cluster did not create", "openstack recordset delete example.org."}},
		"alias":          {func(f *fakeCloud) { f.addRecord(f.addZone("example.org."), "CNAME", name, "mine") }, []string{"has the record CNAME api.t3-life.example.org"}},
		"cluster":        {func(f *fakeCloud) { f.addRecord(f.addZone("example.org."), "AAAA", name, "naupegos-cluster=old-1") }, []string{"which belongs to cluster old-1"}},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFakeCloud()
			x.cloud(f)
			before := f.listing()
			testkit.Fails(t, planned(t, planProvider(t, f, dnsDocument(t, ""))), fail.Refused, x.want...)
			if got := f.listing(); !slices.Equal(got, before) {
				t.Error(difference(got, before))
			}
		})
	}
}

// TestDNSBadLuck: a record that appears after the plan is not taken over, a quota that is used up is named, and a Designate whose name servers take
// nothing over is waited for, without holding up the machines.
func TestDNSBadLuck(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	zone := f.addZone("example.org.")
	f.fault = func(_ int, call string) fault0 {
		if call == "POST /v2/zones/"+zone.str("id")+"/recordsets" && len(f.kinds["recordsets"]) == 0 {
			f.addRecord(zone, "A", "api.t3-life.example.org.", "")
		}
		return fault0{}
	}
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, dnsDocument(t, ""))), fail.Refused, "which this cluster did not create")
	wantRecords(t, f, "A api.t3-life.example.org. [192.0.2.1] 300 ACTIVE")

	f.kinds["recordsets"] = nil
	f.fault = func(_ int, call string) fault0 {
		if strings.HasPrefix(call, "POST /v2/zones/") {
			return fault0{status: 413, text: "Quota exceeded for zone_recordsets."}
		}
		return fault0{}
	}
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, dnsDocument(t, ""))), fail.Refused, "Quota exceeded for zone_recordsets.", "ask for a larger quota")

	f.fault, f.unpublished = nil, true
	doc := dnsDocument(t, "")
	err := apply(t.Context(), fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Step = 200 * time.Millisecond }))
	if err == nil || !strings.Contains(err.Error(), "Designate says that it is PENDING") {
		t.Errorf("a Designate that publishes nothing: %v", err)
	}
	for _, s := range siteSteps(t, f, doc) {
		if s.ID != dns.StepID {
			t.Errorf("left to do: %s", s.ID)
		}
	}
	f.unpublished = false
	siteApply(t, f, doc)
}

// TestDNSOfTheCloudBroken: a document without a record does not need the cloud's Designate.
func TestDNSOfTheCloudBroken(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.addZone("example.org.")
	f.fault = func(_ int, call string) fault0 {
		if strings.HasPrefix(call, "GET /v2/recordsets") {
			return fault0{status: 503, text: "no server is available"}
		}
		return fault0{}
	}
	doc := fakeDocument(t)
	siteApply(t, f, doc)
	p := fakeProvider(t, f, doc)
	inv := testkit.Value(p.Observe(t.Context()))(t)
	var details []string
	for _, s := range p.Destroy(t.Context(), inv) {
		details = append(details, s.Details...)
	}
	if text := strings.Join(details, "\n"); !strings.Contains(text, "DNS records, which can't be listed now: list DNS records: no server is available") {
		t.Errorf("a destroy does not tell: %s", text)
	}
	testkit.Must(t, destroy(t.Context(), fakeProvider(t, f, doc)))
	if err := apply(t.Context(), fakeProvider(t, f, dnsDocument(t, ""))); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("a document with a record: %v", err)
	}
}
