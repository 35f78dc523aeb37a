// Package cache remembers what is known of a cluster's resources in a cloud, so that many steps share one list.
// It may know nothing of what the resources are.
package cache
