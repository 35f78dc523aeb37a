// Package marks makes the names and marks of a cluster's resources in a cloud, and parses them. It must not know about clouds: resources are
// found again by their names and marks alone.
package marks
