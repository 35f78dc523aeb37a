// Package volume keeps the volumes of one cluster's machines: root volumes, which Cinder fills from images, and the additional volumes of the
// document. Volumes of claims are in package leftovers. It must know of servers only whether a machine has one.
package volume
