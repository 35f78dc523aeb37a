// Package openstack runs machines as servers in an OpenStack cloud, with the network, security groups, ports, volumes, floating IPs and load
// balancer that they need. Every resource that it makes carries the whole cluster ID (in description and tag, in metadata, or as an exact
// name) and is found by that ID alone; resources without it are never changed or removed. Existing resources are read with lists, never
// machine by machine. The package must not know about Kubernetes, etcd or the software on a machine, and no other package may import gophercloud.
package openstack
