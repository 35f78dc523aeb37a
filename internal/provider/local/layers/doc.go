// Package layers makes the directories that machines' disks stand on (Debian, or another root file system, made fit for a container; a
// bundle; the agent) once for all machines on a host, and removes those that nobody uses.
// Which machines there are, it is told.
package layers
