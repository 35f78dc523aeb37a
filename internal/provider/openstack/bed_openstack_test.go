//go:build openstack

package openstack

import (
	"cmp"
	"os"
	"testing"
)

// useCloud has the test speak to the real cloud of test/openstack.
func useCloud(t *testing.T) {
	t.Helper()
	file := cmp.Or(os.Getenv("OS_CLIENT_CONFIG_FILE"), "/var/lib/naupegos/openstack/clouds.yaml")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the OpenStack test bed does not run (make openstack-up): %v", err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	t.Setenv("OS_CLOUD", cmp.Or(os.Getenv("OS_CLOUD"), "naupegos"))
}
