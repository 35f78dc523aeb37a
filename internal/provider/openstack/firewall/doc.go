// Package firewall says which traffic the security groups of a cluster let through, to the machines of each role: what the document asks
// for, and nothing else.
// It asks nobody, and knows nothing of the groups that there are.
package firewall
