// Package rootfs makes root file systems of machines on this host: Debian's packages, changes to files, a bundle's blobs,
// its images in a ready containerd store, and the agent, all where package machine says.
// It knows neither providers nor clusters, and nothing of what a machine will be for.
package rootfs
