// Package shared handles what all machines on a host share, across clusters and state roots: the kernel settings that they need, and
// the lock for making and removing shared resources.
// It asks the kernel whether machines still need them, and does not rely on clusters' records.
package shared
