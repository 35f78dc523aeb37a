// Package runner makes the servers of a test bed's Nova real. Nova's fake hypervisor only says that a server runs; for each
// such server the runner boots a machine of this host (internal/provider/local) with the address of its Neutron port and
// the user-data that Nova's metadata service gives out, and it carries Neutron's floating IPs into nftables and Octavia's
// load balancers into a running HAProxy.
//
// It knows the cloud by its APIs alone: it opens no database of any service, and what it makes of a cluster is decided by
// the cloud's answers, not by whoever asked the cloud for it. Security groups are not enforced.
package runner
