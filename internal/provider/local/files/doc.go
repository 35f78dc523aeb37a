// Package files reads and writes the local provider's records. Writes are atomic, even if the command or the host crashes;
// the kernel releases locks when their holder dies.
// The package knows nothing about machines.
package files
