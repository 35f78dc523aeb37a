// Package access lists the calls of a cloud's services that a cluster's own credential admits, as access rules of Keystone. It makes no call,
// and must not know about clusters and machines.
package access
