// Package kube is for the Kubernetes side of a cluster: it renders kubeadm's configuration and what every component needs
// to start, and operates a running cluster (nodes, drain, apply of manifests, waiting, smoke test).
//
// It may not know where machines come from or how files reach them; the API is reached through a dialer that the caller
// supplies. It is the only package that imports client-go.
package kube
