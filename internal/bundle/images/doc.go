// Package images reads container images from registries, OCI layouts and archives into sets of the bundle library, and finds the images that
// manifests name.
//
// It knows nothing of clusters.
package images
