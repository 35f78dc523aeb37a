// Package balancer makes, finds and removes the cluster's load balancer in Octavia: the API's port, those of the ingress, and the machines
// behind them.
// What it has to know of the cluster's network, machines and floating IPs it asks its caller, by Options.
package balancer
