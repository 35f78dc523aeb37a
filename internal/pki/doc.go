// Package pki keeps a cluster's authorities, keys and certificates: made once, remembered, renewed in time.
//
// It knows x509 and nothing of machines, files on them or Kubernetes objects; where the material is kept is the caller's
// Secrets. Subjects and extensions are kubeadm's, so that kubeadm's own certificate commands work on what is made here.
package pki
