// Package image makes bootable disk images of machines: Debian with kernel, boot loaders and cloud-init, and a whole bundle inside, so
// that a machine booted from one gets nothing of it over the network.
// It knows neither clouds nor clusters: who uploads an image reads its Info.
package image
