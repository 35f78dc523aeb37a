// Package addon is the catalogue of manifests that are installed in clusters in addition to the pod network. It only renders; the caller applies,
// compares and removes them with kube.Client under the addon's name. It reads images from bundle manifests, but knows no clusters, clouds or API.
package addon
