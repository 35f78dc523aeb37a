// Package image makes bootable disk images of machines: Debian with kernel, boot loaders and cloud-init, and a whole bundle inside, so
// that a machine booted from one gets nothing of it over the network.
// It depends on neither clouds nor clusters: uploads use the image's Info.
package image
