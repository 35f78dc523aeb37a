package v1alpha1

import (
	"regexp"
	"strings"
	"time"
)

// OpenStackDNS says where Designate publishes the API's name, spec.endpoint.dnsName.
type OpenStackDNS struct {
	// Existing zone of the project, such as example.org. It is never changed or removed.
	Zone string `json:"zone" yaml:"zone" jsonschema:"required,maxLength=253" host:"none"`
	// How long resolvers may keep the record.
	TTL Duration `json:"ttl,omitzero" yaml:"ttl,omitempty" jsonschema:"default=1m"`
}

// ZoneName returns the name of the zone as Designate writes it, with a dot at the end.
func (d OpenStackDNS) ZoneName() string { return strings.TrimSuffix(d.Zone, ".") + "." }

// Seconds returns the TTL in seconds.
func (d OpenStackDNS) Seconds() int { return int(d.TTL.Duration / time.Second) }

var zoneName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\.?$`)

// defaultDNSName names the API in the zone of its record.
func (c *Cluster) defaultDNSName() {
	os, e := c.Spec.Provider.OpenStack, &c.Spec.Endpoint
	if os != nil && os.DNS != nil && zoneName.MatchString(os.DNS.Zone) && e.DNSName == "" && e.Kind != EndpointAddress && c.Metadata.Name != "" {
		e.DNSName = "api." + c.Metadata.Name + "." + strings.TrimSuffix(os.DNS.Zone, ".")
	}
}
