// Package nodedns declares the settings of the document's addon node-local-dns. It checks only settings that the rest of the document does not affect, and renders
// nothing.
package nodedns

import "github.com/naupegos/naupegos/api/strict"

// NodeLocalDNS answers the DNS queries of each node's pods from a cache on the node, at the address of cluster DNS: neither pods nor kubelets change. While the cache of a node is away, cluster DNS answers its pods as without the addon.
type NodeLocalDNS struct {
	// Link-local address of the cache on every node, for pods that name it in their dnsConfig. Only the cache answers there.
	Address string `json:"address,omitempty" yaml:"address,omitempty" jsonschema:"default=169.254.20.10,pattern=^[0-9.]+$" host:"none"`
	// Who resolves names outside of the cluster for the cache: ClusterDNS resolves all names as without the addon; Node asks the node's own name servers, also while cluster DNS is away, past the settings of cluster DNS.
	Outside string `json:"outside,omitempty" yaml:"outside,omitempty" jsonschema:"default=ClusterDNS,enum=ClusterDNS,enum=Node" host:"none"`
	// Longest time for which an answer is kept, up to 1h. The answer itself may limit it.
	MaxTTL strict.Duration `json:"maxTTL,omitzero" yaml:"maxTTL,omitempty" jsonschema:"default=30s"`
	// Longest time for which an expired answer is given while the cache asks for a new one. Left out: none is given.
	ServeStale strict.Duration `json:"serveStale,omitzero" yaml:"serveStale,omitempty"`
	// Number of answers that the cache of a node keeps. 10,000 take about 30 MB.
	Entries int `json:"entries,omitempty" yaml:"entries,omitempty" jsonschema:"default=10000,minimum=1000,maximum=1000000"`
	// Write each query into the pods' logs.
	LogQueries bool `json:"logQueries,omitempty" yaml:"logQueries,omitempty" jsonschema:"default=false"`
}

// OutsideNode is the setting outside with which the node's own name servers resolve names outside of the cluster.
const OutsideNode = "Node"

// MetricsPort is the TCP port of each machine at which the cache serves its metrics.
const MetricsPort = 9253
