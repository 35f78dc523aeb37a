// Package existing finds the resources of a cloud that are there before the cluster, by the names in the document: flavors, images, networks,
// subnets, routers, security groups and availability zones. Each is looked up when it is first needed, and remembered. The package makes and
// changes nothing.
package existing
