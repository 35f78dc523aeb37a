// Package kube operates a running cluster by its API: nodes, drain, apply of manifests, waiting, what lies in a cloud on the cluster's
// behalf, smoke tests.
//
// It may not know where machines come from or how files reach them; the API is reached through a dialer that the caller
// supplies. It is the only package that imports client-go.
package kube
