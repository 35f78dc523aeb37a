//go:build openstack

package openstack

import (
	"testing"

	"github.com/naupegos/naupegos/test/openstack/bed"
)

// useCloud has the test speak to the test bed of test/openstack, and never to a cloud that the user's environment names.
func useCloud(t *testing.T) *bed.Bed {
	t.Helper()
	b, err := bed.Open(bed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", b.CloudsYAML())
	t.Setenv("OS_CLOUD", bed.Cloud)
	return b
}
