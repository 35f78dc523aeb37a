// Package etcd is for the life of an etcd cluster: its members and their health, learners, snapshots, defragmentation.
//
// Members are reached through a dialer that the caller supplies, so nothing here knows of machines or SSH.
// It may not know Kubernetes either; it is the only package that imports the etcd client.
package etcd
