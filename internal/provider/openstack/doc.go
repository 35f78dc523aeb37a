// Package openstack makes machines of servers in an OpenStack cloud, with the network, security groups, ports, volumes,
// floating IPs and load balancer that they need.
// What it makes carries the whole cluster ID (description and tag, metadata, or an exact name) and is found again by that
// alone; what does not carry it is never changed or removed. What there is, is read by lists, never machine by machine.
// The package may know nothing of Kubernetes, of etcd or of what runs on a machine, and no other one may import gophercloud.
package openstack
