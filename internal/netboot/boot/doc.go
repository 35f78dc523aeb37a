// Package boot answers the HTTP requests of booting machines: iPXE and GRUB scripts, Ignition, cloud-init and other templates, metadata and
// assets, with the semantics of matchbox 0.11.0.
//
// It reads and compiles groups, profiles and templates once and indexes the groups by the labels of their selectors, so that a request costs the
// same for one machine as for ten thousand. The package knows nothing of clusters, roles or the registry of machines: the registry puts a Group
// for each machine into a Catalog.
package boot
