package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// externalDNSSources lists the known sources.
var externalDNSSources = []string{v1alpha1.SourceService, v1alpha1.SourceIngress, v1alpha1.SourceHTTPRoute}

func checkExternalDNS(c *v1alpha1.Cluster, r *findings, field string, e *v1alpha1.ExternalDNS) {
	const give = "give externalDNS.rfc2136, or externalDNS.designate with provider openstack"
	if e == nil {
		r.Add(field, "external-dns needs a name server", give, field+".name")
		return
	}
	field += ".externalDNS"
	at := field + ".rfc2136"
	switch {
	case e.RFC2136 == nil && e.Designate == nil:
		r.Add(field, "external-dns needs a name server", give)
	case e.RFC2136 != nil && e.Designate != nil:
		r.Add(field+".designate", "is given beside rfc2136", "keep one of them", at)
	case e.Designate != nil:
		if at = field + ".designate"; c.Spec.Provider.OpenStack == nil {
			r.Add(at, "belongs to provider openstack, but the provider is another", "give rfc2136 instead", "spec.provider")
		}
	default:
		if e.RFC2136.Server != "" {
			checkHostOrAddress(r, at+".server", e.RFC2136.Server, "a name server")
		}
		checkAuth(r, at+".auth", e.RFC2136.Auth)
	}
	checkDNSZones(r, at+".zones", e.Zones())
	if len(validation.IsValidLabelValue(e.OwnerID)) > 0 {
		r.Add(field+".ownerID", strict.Quote(e.OwnerID)+" is not a mark of records", "use letters, digits, -, . and _")
	}
	for i, d := range e.Domains {
		where := strict.Item(field+".domains", i)
		switch {
		case len(validation.IsDNS1123Subdomain(d)) > 0:
			r.Add(where, strict.Quote(d)+" is not a domain", "write it like apps.example.org")
		case !slices.ContainsFunc(e.Zones(), func(z string) bool { return d == z || strings.HasSuffix(d, "."+z) }):
			r.Add(where, fmt.Sprintf("%s is in none of the zones", d), "list its zone, or remove it", at+".zones")
		}
	}
	r.Choices(field+".sources", "a source", e.Sources, externalDNSSources)
}

func checkDNSZones(r *findings, field string, zones []string) {
	for i, z := range zones {
		where := strict.Item(field, i)
		switch {
		case len(validation.IsDNS1123Subdomain(z)) > 0:
			r.Add(where, strict.Quote(z)+" is not a zone", "write it like example.org")
		case slices.Contains(zones[:i], z):
			r.Add(where, fmt.Sprintf("zone %s is already listed", z), "keep one of them")
		}
	}
}
