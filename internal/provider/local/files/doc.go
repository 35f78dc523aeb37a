// Package files reads and writes the local provider's records: whole or not at all, whatever happens to the command or to the host, and
// under locks that the kernel releases when their holder dies.
// It knows nothing of machines.
package files
