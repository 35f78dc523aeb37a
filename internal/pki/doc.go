// Package pki keeps a cluster's authorities, keys and certificates: it makes them once, stores them, and renews them in time.
//
// It knows x509 and nothing about machines, files on them or Kubernetes objects; it stores the material in the caller's
// Secrets. Subjects and extensions are kubeadm's, so that kubeadm's own certificate commands work on its certificates.
package pki
