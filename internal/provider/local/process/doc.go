// Package process handles machines' processes on the host: their lasting identity, their cgroups, and their
// transient units on hosts whose pid 1 is systemd.
// It knows nothing about the other parts of a machine.
package process
