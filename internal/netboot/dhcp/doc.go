// Package dhcp computes the answers to DHCP messages of machines that boot from the network. Each mode is a Handler of its own: Proxy only says
// where to boot from and leaves addresses to another DHCP server; Full also assigns addresses. The package opens no socket.
package dhcp
