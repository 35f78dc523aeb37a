// Package hostnet makes, finds and removes the parts of a cluster's network on the host: bridge, links, the nftables table that
// masquerades, iptables rules that accept forwarding. It also reports the host's networks and name servers.
// It asks the kernel each time and keeps no state; callers know which cluster a name belongs to.
package hostnet
