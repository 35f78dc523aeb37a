package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCloudResourcesTellVolumes: CloudResources lists each volume that the driver created once, by its ID in the cloud: with its claim, or on its
// own.
func TestCloudResourcesTellVolumes(t *testing.T) {
	const driver = "cinder.csi.openstack.org"
	c := fakeClient()
	volume := func(name, madeBy string) {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: madeBy}}}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "id-of-" + name}
		if _, err := c.set.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	volume("claimed", driver)
	volume("retained", driver)
	volume("lent", "")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	claim.Spec.VolumeName = "claimed"
	if _, err := c.set.CoreV1().PersistentVolumeClaims("shop").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all, err := c.CloudResources(t.Context(), FreeOptions{})
	if err != nil || len(all) != 2 || all[0].Volume != "id-of-claimed" || all[0].Kind != "PersistentVolumeClaim" ||
		all[1].Volume != "id-of-retained" || all[1].Kind != "PersistentVolume" {
		t.Errorf("%v: %v", all, err)
	}
	named, err := c.NamedVolumes(t.Context(), driver)
	if err != nil || len(named) != 3 || named[1] != (NamedVolume{"lent", "", "id-of-lent"}) {
		t.Errorf("%v: %v", named, err)
	}
	if named, err := c.NamedVolumes(t.Context(), "another.driver"); err != nil || len(named) != 0 {
		t.Errorf("%v: %v", named, err)
	}
}
