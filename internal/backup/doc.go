// Package backup keeps backups of clusters as sets. Each is encrypted, contains all that a restore of the cluster needs and is kept in a place that
// outlives the cluster (a Target).
//
// It writes, lists, proves and opens sets, and knows neither etcd nor the store nor Kubernetes: callers provide the content.
package backup
