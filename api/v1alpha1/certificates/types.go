// Package certificates declares the settings of the document's addon cert-manager. It checks only settings that the rest of the document does not affect, and
// renders nothing.
package certificates

// CertManager issues certificates as Issuers, ClusterIssuers, and annotations of Ingresses ask for them.
type CertManager struct {
	// Pods of each of its three programs. With 2, certificates are issued while a node is away.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=1,maximum=5"`
	// Namespace of the Secrets that ClusterIssuers name.
	ClusterResourceNamespace string `json:"clusterResourceNamespace,omitempty" yaml:"clusterResourceNamespace,omitempty" jsonschema:"default=cert-manager,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// How cert-manager looks up the records of DNS-01 challenges before it asks the ACME server.
	DNS01 *CertManagerDNS01 `json:"dns01,omitempty" yaml:"dns01,omitempty"`
	// Serve Gateways of the Gateway API too. Its definitions must exist, or cert-manager does not start.
	GatewayAPI bool `json:"gatewayAPI,omitempty" yaml:"gatewayAPI,omitempty" jsonschema:"default=false"`
	// Feature gates of cert-manager, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
}

// CertManagerDNS01 says which name servers are asked for the records of DNS-01 challenges.
type CertManagerDNS01 struct {
	// Recursive name servers that cert-manager asks instead of the pod's, as ADDRESS:PORT.
	RecursiveNameservers []string `json:"recursiveNameservers" yaml:"recursiveNameservers" jsonschema:"required,minItems=1,maxItems=10" host:"none"`
	// Ask only these servers, and not the domain's own name servers, which the network may not reach.
	Only bool `json:"only,omitempty" yaml:"only,omitempty" jsonschema:"default=false"`
}
