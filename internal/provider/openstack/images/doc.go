// Package images brings images into a cloud's image service, whole or not at all.
// It may know nothing of clusters, nor of what is inside an image.
package images
