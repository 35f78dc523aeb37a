// Package gateway renders what a gateway machine runs: HAProxy, which spreads API requests over the healthy API servers,
// and keepalived, which keeps the cluster's virtual address (VIP) on one healthy gateway.
//
// It turns parameters into a machine.Config and nothing else: it reaches no machine and knows nothing of Kubernetes but
// the address and the readiness path of its API servers.
package gateway
