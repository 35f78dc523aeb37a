// Package dhcp decides what is answered to a DHCP message of a machine that boots from the network: a message in, a message or none out. Each
// mode is a Handler of its own: Proxy says only where to boot from and leaves addresses to the DHCP server that is there; Full gives out
// addresses, too. The package opens no socket.
package dhcp
