// Package kube operates a running cluster through its API: nodes, drain, apply of manifests, waiting, the cluster's cloud resources, smoke tests.
//
// It may not know where machines come from or how files reach them; it reaches the API through a dialer from the caller. It is the only package that
// imports client-go.
package kube
