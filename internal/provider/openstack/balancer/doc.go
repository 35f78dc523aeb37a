// Package balancer makes, finds and removes the cluster's load balancer in Octavia: the API's port, the ingress ports, and the machines behind
// them. Its caller provides the cluster's network, machines and floating IPs through Options.
package balancer
