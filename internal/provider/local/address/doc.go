// Package address chooses subnets for clusters on one host, and addresses for their machines.
// It only computes: callers pass in the subnets and addresses in use.
package address
