// Package hostnet makes, finds and removes what a cluster's network is made of on the host: bridge, links, the nftables table that
// masquerades, iptables rules that let packets through; and it tells which networks and name servers the host has.
// It asks the kernel each time and remembers nothing; whose a name is, its caller knows.
package hostnet
