// Package runner boots real machines for the servers of a test bed's Nova. Nova's fake hypervisor only reports that a server runs. For each such
// server, the runner boots a machine on this host (internal/provider/local) with the address of its Neutron port and the user-data from Nova's
// metadata service. It translates Neutron's floating IPs into nftables rules and Octavia's load balancers into a configuration of a running
// HAProxy.
//
// The runner uses only the cloud's APIs. It opens no database of a service, and only the cloud's answers decide what it does, whichever client
// sent the requests to the cloud. Security groups are not enforced.
package runner
