// Package address gives clusters on one host their subnets, and machines their addresses in them.
// It only reckons: what is in use, it is told.
package address
