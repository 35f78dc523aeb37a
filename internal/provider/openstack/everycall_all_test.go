//go:build integration

package openstack

func init() { everyMishap = true }
