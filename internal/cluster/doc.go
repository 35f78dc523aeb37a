// Package cluster says what a cluster should be and which steps lead there: apply, scale, replace, destroy.
//
// Every verb observes (the provider's machines, each machine's own report, the Kubernetes API, etcd), compares that with
// the Cluster document and returns a plan; package plan carries it out. Resume after a crash is: observe and plan again.
// It may know every other package but the command line.
package cluster
