// Package netboot brings a machine that was just powered on to the boot endpoints: DHCP or ProxyDHCP with the right iPXE for its firmware,
// TFTP to load it, and router advertisements so that iPXE does not wait for what never comes. It serves one network interface. What machines
// are told over HTTP is the business of its room boot, and it knows nothing of clusters.
package netboot
