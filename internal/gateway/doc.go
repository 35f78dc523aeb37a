// Package gateway renders the configuration of gateway machines: HAProxy, which balances API requests over the healthy API servers, and
// keepalived, which keeps the cluster's virtual address (VIP) on one healthy gateway.
//
// It turns parameters into a machine.Config and nothing else: it connects to no machine, and of Kubernetes it knows only the address and the
// readiness path of the API servers.
package gateway
