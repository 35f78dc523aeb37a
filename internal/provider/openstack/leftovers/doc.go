// Package leftovers finds and deletes what the controllers in a cluster made in the cloud and did not delete: volumes of claims, and load balancers
// of Services with their floating IPs. It must not know about machines, apart from which servers are the cluster's.
package leftovers
