// Package boot answers what machines ask over HTTP while they boot: iPXE and GRUB scripts, Ignition, cloud-init and other templates, metadata
// and assets, with the semantics of matchbox 0.11.0.
//
// Groups, profiles and templates are read and compiled once, and indexed by the labels that they ask for, so that a request costs the same
// whether there is one machine or ten thousand. The package knows nothing of clusters, roles or the registry of machines: who knows a
// machine puts a Group into a Catalog.
package boot
