// Package etcd operates an etcd cluster: its members and their health, learners, snapshots, defragmentation.
//
// It reaches members through the caller's dialer, so it does not know machines or SSH. It must not know Kubernetes either. No other package
// imports the etcd client.
package etcd
