// Package backup keeps backups of clusters: sets, each of which is all that a cluster needs to come back, encrypted, in a place that
// outlives it (a Target).
//
// It knows how a set is written, listed, proven and opened, and no etcd, no store and no Kubernetes: what goes into a set is the caller's.
package backup
