// Package cache holds a cluster's known resources in a cloud, so that many steps share one list. It must not know what the resources are.
package cache
