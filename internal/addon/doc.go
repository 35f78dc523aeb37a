// Package addon is the catalogue of manifests installed in clusters beside the pod network. It only renders;
// the caller applies, compares and removes them with kube.Client under the addon's name. It knows bundles, for images, but neither clusters nor
// clouds nor the API.
package addon
