package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// attachment returns the attachment of one volume to one node.
func attachment(name, volume, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
}

// TestWaitDetached: a node with a volume of a DaemonSet's pod and one that no pod uses any more, and another node's volume.
func TestWaitDetached(t *testing.T) {
	c := fakeClient()
	tracker := c.set.(*fake.Clientset).Tracker()
	for _, o := range []runtime.Object{
		attachment("a", "pv-gone", "w-1"), attachment("b", "pv-used", "w-1"), attachment("c", "pv-other", "w-2"),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "used"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-used"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "daemon"}, Spec: corev1.PodSpec{NodeName: "w-1", Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "used"}}},
		}}},
	} {
		testkit.Must(t, tracker.Add(o))
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := c.WaitDetached(short, "w-1")
	if err == nil || !strings.Contains(err.Error(), "volumes pv-gone are still attached to node w-1") || strings.Contains(err.Error(), "pv-used") {
		t.Errorf("want pv-gone named alone: %v", err)
	}
	if fail.KindOf(err) != fail.NotReady {
		t.Errorf("%v is of kind %v", err, fail.KindOf(err))
	}
	testkit.Must(t, c.set.StorageV1().VolumeAttachments().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	testkit.Must(t, c.WaitDetached(t.Context(), "w-1"))
}
