// Package shared is what all machines on a host share, whatever their cluster and its state root: the kernel settings that they need, and
// the lock under which such things are made and removed.
// It asks the kernel who still needs them, and goes by no cluster's records.
package shared
