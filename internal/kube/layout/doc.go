// Package layout renders what kubeadm would leave behind on machines: configuration, certificates, manifests and units of every
// component, kubeconfigs, and which of kubeadm's phases record the cluster once it runs.
//
// It works on Params, Nodes and the authorities alone: it asks no API and no machine, and the same input gives the same output.
package layout
