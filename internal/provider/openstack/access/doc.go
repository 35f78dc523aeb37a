// Package access says which calls of a cloud's services a cluster's own credential is for, as access rules of Keystone.
// It asks nobody, and may know nothing of clusters and machines.
package access
