// Package local makes machines of this host: systemd-nspawn system containers with a Debian root file system, an overlay,
// a network name space on a bridge of the cluster's own, and a cloud-init NoCloud seed, booted as a cloud server would be.
// A small supervisor process per machine outlives the command; whatever is found later is found by the records under
// Options.Root, by cgroup and by process start time, never by a name's look.
// The package may know nothing of Kubernetes, of etcd or of what runs on a machine.
package local
