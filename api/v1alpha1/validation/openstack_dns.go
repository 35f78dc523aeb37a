package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// checkCloudDNS checks the zone of the API's record, and that it contains the API's name.
func checkCloudDNS(c *v1alpha1.Cluster, r *findings, d *v1alpha1.OpenStackDNS) {
	if d == nil {
		return
	}
	const path = openStackField + ".dns"
	zone, e := strings.TrimSuffix(d.Zone, "."), c.Spec.Endpoint
	switch {
	case e.Kind == v1alpha1.EndpointAddress:
		r.Add(path, "is given, but with kind address the API is reached by spec.endpoint.address", "remove it", "spec.endpoint.kind")
	case zone == "":
		if d.Zone != "" { // otherwise reported as missing
			r.Add(path+".zone", strict.Quote(d.Zone)+" is not a zone", "write it like example.org")
		}
	case len(validation.IsDNS1123Subdomain(zone)) > 0:
		r.Add(path+".zone", strict.Quote(d.Zone)+" is not a zone", "write it like example.org")
	case e.DNSName != zone && !strings.HasSuffix(e.DNSName, "."+zone):
		r.Add("spec.endpoint.dnsName", strict.Clip(e.DNSName)+" is not in the zone of the API's record, "+zone, "take a name in it, or name its zone", path+".zone")
	}
}
