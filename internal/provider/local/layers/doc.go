// Package layers makes the lower directories of machines' disks (Debian, or another root file system, adapted to a container; a
// bundle; the agent) once for all machines on a host, and removes unused ones.
// Callers report which layers machines use.
package layers
