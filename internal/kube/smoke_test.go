package kube

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// TestCloudSmokeAsksForWhatThereIs: the test requests only resources that the cloud has.
func TestCloudSmokeAsksForWhatThereIs(t *testing.T) {
	for _, c := range []struct {
		o     CloudSmokeOptions
		kinds string
		names string
	}{
		{CloudSmokeOptions{}, "Namespace ServiceAccount Service Pod Pod PersistentVolumeClaim", "load balancer and volume"},
		{CloudSmokeOptions{NoLoadBalancer: true}, "Namespace ServiceAccount Pod PersistentVolumeClaim", "volume"},
		{CloudSmokeOptions{NoVolume: true}, "Namespace ServiceAccount Service Pod", "load balancer"},
	} {
		c.o.Image = "echo"
		manifests, names := cloudSmokeManifests(c.o)
		objects, err := manifest.Parse([]byte(manifests))
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, u := range objects {
			kinds = append(kinds, u.GetKind())
		}
		if got := strings.Join(kinds, " "); got != c.kinds || names != c.names {
			t.Errorf("%s (%s), want %s (%s)", got, names, c.kinds, c.names)
		}
	}
}
