// Package rootfs builds root file systems for machines on this host: Debian's packages, changes to files, a bundle's blobs, its images in a ready
// containerd store, and the agent, in the places that package machine defines. It knows neither providers nor clusters, nor the purpose of a
// machine.
package rootfs
