package v1alpha1

// ExternalDNS publishes the names of Services, Ingresses and Gateways in DNS.
type ExternalDNS struct {
	// The name server that takes the records as dynamic updates (RFC 2136), such as BIND, Knot DNS or PowerDNS.
	RFC2136 *RFC2136 `json:"rfc2136,omitempty" yaml:"rfc2136,omitempty"`
	// Designate of the cluster's cloud, instead of a name server. Only with provider openstack.
	Designate *Designate `json:"designate,omitempty" yaml:"designate,omitempty"`
	// Domains whose names are published. Left out: all names in the zones.
	Domains []string `json:"domains,omitempty" yaml:"domains,omitempty" jsonschema:"maxItems=50"`
	// What happens to records whose object is gone: upsert-only keeps them, sync deletes them. Records of others are never changed.
	Policy string `json:"policy,omitempty" yaml:"policy,omitempty" jsonschema:"default=upsert-only,enum=upsert-only,enum=sync"`
	// Mark of this cluster's records, which TXT records beside them hold. Left out: the cluster's name.
	OwnerID string `json:"ownerID,omitempty" yaml:"ownerID,omitempty" jsonschema:"maxLength=63,pattern=^([A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?)?$"`
	// Kinds of objects whose names are published: service, ingress, gateway-httproute. Left out: service and ingress.
	Sources []string `json:"sources,omitempty" yaml:"sources,omitempty" jsonschema:"maxItems=3"`
	// Interval between two comparisons with the name server. Changes in the cluster are published within seconds.
	Interval Duration `json:"interval,omitzero" yaml:"interval,omitempty" jsonschema:"default=1m"`
}

// Designate is the DNS service of an OpenStack cloud.
type Designate struct {
	// Existing zones of the cluster's project that records are written to.
	Zones []string `json:"zones" yaml:"zones" jsonschema:"required,minItems=1,maxItems=50"`
}

// Zones lists the zones that records are written to.
func (e ExternalDNS) Zones() []string {
	switch {
	case e.RFC2136 != nil:
		return e.RFC2136.Zones
	case e.Designate != nil:
		return e.Designate.Zones
	}
	return nil
}

// UsesDesignate reports whether programs in the cluster write records to Designate.
func (c *Cluster) UsesDesignate() bool {
	a := c.Addon(AddonExternalDNS)
	return a != nil && a.ExternalDNS != nil && a.ExternalDNS.Designate != nil
}

// RFC2136 is a name server that takes dynamic updates.
type RFC2136 struct {
	// Name or address of the server, as pods reach it.
	Server string `json:"server" yaml:"server" jsonschema:"required,maxLength=253" host:"none"`
	// Its TCP port.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=53,minimum=1,maximum=65535" host:"none"`
	// Zones of the server that records are written to. The server must allow the key to transfer them.
	Zones []string `json:"zones" yaml:"zones" jsonschema:"required,minItems=1,maxItems=50"`
	// The TSIG key as one line NAME:SECRET, with the secret in base64 as in the server's key file.
	Auth *BasicAuth `json:"auth" yaml:"auth" jsonschema:"required"`
	// Algorithm of the key.
	Algorithm string `json:"algorithm,omitempty" yaml:"algorithm,omitempty" jsonschema:"default=hmac-sha256,enum=hmac-sha1,enum=hmac-sha224,enum=hmac-sha256,enum=hmac-sha384,enum=hmac-sha512"`
}

// The sources of external-dns.
const (
	SourceService   = "service"
	SourceIngress   = "ingress"
	SourceHTTPRoute = "gateway-httproute"
)
