// Package addon is the catalogue of what is installed in clusters by manifests beside the pod network: today what a cluster on
// OpenStack needs. It renders; applying, comparing and removing is the caller's, by kube.Client under the addon's name. It knows
// bundles, for images, and nothing of clusters, clouds or the API.
package addon
