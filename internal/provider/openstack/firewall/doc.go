// Package firewall defines the traffic that the security groups of a cluster allow to the machines of each role: exactly what the document
// requires. It makes no call, and does not know the existing groups.
package firewall
