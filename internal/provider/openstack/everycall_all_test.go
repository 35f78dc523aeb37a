//go:build integration || openstack

package openstack

func init() { everyMishap = true }
