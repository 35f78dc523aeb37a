// Package bed runs a real OpenStack on this machine for tests: Keystone, Glance, Placement, Nova, Neutron, Cinder and Octavia from
// Debian 12's packages, without systemd, on one address of the loopback link.
//
// Only hardware is replaced: by Nova's fake hypervisors, a Neutron mechanism driver that binds every port, a Cinder driver with sparse files, and
// Octavia without amphorae (plugins/). The package knows neither Kubernetes nor Naupegos' providers.
package bed
