// Package local makes machines on this host: systemd-nspawn system containers with a Debian root file system, an overlay,
// a network name space on the cluster's own bridge, and a cloud-init NoCloud seed, booted as a cloud server would be.
// A small supervisor process per machine outlives the command. Later commands find machines by the records under
// Options.Root, by cgroup and by process start time, never by guessing from names.
// The package must know nothing about Kubernetes, etcd or anything else that runs on a machine.
package local
