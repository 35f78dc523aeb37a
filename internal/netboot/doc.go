// Package netboot leads a machine that was just powered on to the boot endpoints: DHCP or ProxyDHCP with the right iPXE for its firmware, TFTP to
// load it, and router advertisements so that iPXE does not wait for an IPv6 router. It serves one network interface. The subpackage boot answers
// the machines' HTTP requests. The package knows nothing of clusters.
package netboot
