// Package process knows machines' processes as the host has them: which they are for good, the cgroups that they are in, and the
// transient units of hosts whose pid 1 is systemd.
// It knows nothing of what a machine is made of.
package process
