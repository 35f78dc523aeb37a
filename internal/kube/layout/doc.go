// Package layout renders the files that kubeadm would leave on machines: configuration, certificates, manifests and units of every component,
// kubeconfigs, and the kubeadm phases that record the running cluster.
//
// It works only from Params, Nodes and the authorities: it contacts no API and no machine, and the same input gives the same output.
package layout
