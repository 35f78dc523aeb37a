// Package images uploads images to a cloud's image service, completely or not at all. It must not know about clusters or the content of
// images.
package images
