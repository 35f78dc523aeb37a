//go:build integration

package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCloud works on one real API server, subtest after subtest.
func TestCloud(t *testing.T) {
	a := startAPI(t)
	c := a.client()
	testkit.Must(t, c.WaitReady(short(t, time.Minute)))
	t.Run("addons", func(t *testing.T) { cloudAddons(t, c) })
	t.Run("free", func(t *testing.T) { cloudFree(t, c) })
}

// cloudAddons: the API server accepts the manifests, and the pods notice a new credential.
func cloudAddons(t *testing.T, c *Client) {
	conf, err := addon.CloudConf{AuthURL: "https://k/v3", CredentialID: "id", CredentialSecret: "very-secret"}.Render()
	testkit.Must(t, err)
	o := addon.OpenStack{ClusterID: "0123456789abcdef", Bundle: bundletest.Manifest(release.Default), CloudConf: conf, ControlPlanes: 3, PodCIDR: "10.244.0.0/16"}
	for _, name := range []string{bundle.ImageOpenStackCCM, bundle.ImageCinderCSI, bundle.ImageCinderCSINode} {
		o.Bundle.Images = append(o.Bundle.Images, bundle.Image{Name: name, Ref: "naupegos.dev/k8s/" + name + ":v1"})
	}
	all, err := o.Catalogue()
	testkit.Must(t, err)
	for _, ad := range all {
		opts := ApplyOptions{Addon: ad.Name, Prune: true}
		_, err := c.Apply(t.Context(), ad.Manifests, opts)
		testkit.Must(t, err)
		ok, err := c.UpToDate(t.Context(), ad.Manifests, opts)
		testkit.Must(t, err)
		if !ok {
			t.Errorf("%s is applied and not up to date", ad.Name)
		}
		for _, w := range ad.Workloads {
			if _, err := c.set.AppsV1().Deployments(addon.Namespace).Get(t.Context(), w.Name, metav1.GetOptions{}); w.Kind == "Deployment" && err != nil {
				t.Error(err)
			}
			if _, err := c.set.AppsV1().DaemonSets(addon.Namespace).Get(t.Context(), w.Name, metav1.GetOptions{}); w.Kind == "DaemonSet" && err != nil {
				t.Error(err)
			}
		}
	}
	o.CloudConf = append(o.CloudConf, "# rotated\n"...)
	all, err = o.Catalogue()
	testkit.Must(t, err)
	for _, ad := range all {
		ok, err := c.UpToDate(t.Context(), ad.Manifests, ApplyOptions{Addon: ad.Name, Prune: true})
		testkit.Must(t, err)
		if ok {
			t.Errorf("%s is up to date with another credential", ad.Name)
		}
	}
	list, err := c.set.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{})
	testkit.Must(t, err)
	if strings.Contains(list.String(), "very-secret") {
		t.Error("an inventory holds the secret")
	}
}

const cloudObjectsManifest = `apiVersion: v1
kind: Service
metadata: {name: front, finalizers: [service.kubernetes.io/load-balancer-cleanup]}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: inside}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: others}
spec: {type: LoadBalancer, loadBalancerClass: example.org/lb, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-made, annotations: {pv.kubernetes.io/provisioned-by: cinder.csi.openstack.org}, finalizers: [external-provisioner.volume.kubernetes.io/finalizer]}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 3Gi}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: cinder
  claimRef: {namespace: default, name: data}
  csi: {driver: cinder.csi.openstack.org, volumeHandle: 5c1f}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-foreign}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 9Gi}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: default, name: foreign}
  csi: {driver: cinder.csi.openstack.org, volumeHandle: f00}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: cinder, volumeName: pv-made, resources: {requests: {storage: 3Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: foreign}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: pv-foreign, resources: {requests: {storage: 9Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  nodeName: n1
  terminationGracePeriodSeconds: 30
  containers: [{name: c, image: x}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: again}
spec:
  selector: {matchLabels: {app: again}}
  template: {metadata: {labels: {app: again}}, spec: {containers: [{name: c, image: x}]}}
  volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`

// cloudFree: this test acts as kubelet, cloud controller manager and provisioner. Errors name what keeps objects; resources that are not the
// cluster's stay.
func cloudFree(t *testing.T, c *Client) {
	ctx := t.Context()
	addNode(t, c, "n1", true)
	testkit.Until(t, time.Minute, 100*time.Millisecond, func() error {
		_, err := c.set.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	_, err := c.Apply(ctx, []byte(cloudObjectsManifest), ApplyOptions{})
	testkit.Must(t, err)
	list, err := c.CloudResources(ctx, FreeOptions{})
	testkit.Must(t, err)
	if len(list) != 2 || list[0].String() != "Service default/front (load balancer without an address yet)" || list[1].String() != "PersistentVolumeClaim default/data (volume 5c1f of 3Gi)" {
		t.Fatalf("what would go: %v", list)
	}
	if list, err = c.CloudResources(ctx, FreeOptions{KeepVolumes: true}); err != nil || len(list) != 1 {
		t.Errorf("with volumes kept: %v, %v", list, err)
	}
	_, err = c.set.CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Type: "Warning", Reason: "DeleteLoadBalancerFailed", Message: "Octavia says 409",
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "front"}, LastTimestamp: metav1.Now()}, metav1.CreateOptions{})
	testkit.Must(t, err)

	err = c.FreeCloudResources(ctx, FreeOptions{Timeout: 5 * time.Second})
	wantFail(t, err, fail.NotReady, "Service default/front", "load-balancer-cleanup", "Octavia says 409", "PersistentVolumeClaim default/data: used by pod user on n1", "pvc-protection")
	n, err := c.Node(ctx, "n1")
	testkit.Must(t, err)
	if !n.Unschedulable {
		t.Error("the node is not cordoned")
	}
	if _, err := c.set.AppsV1().StatefulSets("default").Get(ctx, "again", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the StatefulSet exists: %v", err)
	}
	v, err := c.set.CoreV1().PersistentVolumes().Get(ctx, "pv-made", metav1.GetOptions{})
	testkit.Must(t, err)
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Error("the volume would be retained")
	}

	got := make(chan error, 1)
	go func() { got <- c.FreeCloudResources(ctx, FreeOptions{Timeout: time.Minute}) }()
	now := int64(0)
	testkit.Must(t, c.set.CoreV1().Pods("default").Delete(ctx, "user", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	unfinalize := func(do func(context.Context, string, types.PatchType, []byte) error, name string) {
		testkit.Must(t, do(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	unfinalize(func(ctx context.Context, n string, p types.PatchType, d []byte) error {
		_, err := c.set.CoreV1().Services("default").Patch(ctx, n, p, d, metav1.PatchOptions{})
		return err
	}, "front")
	unfinalize(func(ctx context.Context, n string, p types.PatchType, d []byte) error {
		_, err := c.set.CoreV1().PersistentVolumeClaims("default").Patch(ctx, n, p, d, metav1.PatchOptions{})
		return err
	}, "data")
	unfinalize(func(ctx context.Context, n string, p types.PatchType, d []byte) error {
		_, err := c.set.CoreV1().PersistentVolumes().Patch(ctx, n, p, d, metav1.PatchOptions{})
		return err
	}, "pv-made")
	testkit.Must(t, c.set.CoreV1().PersistentVolumes().Delete(ctx, "pv-made", metav1.DeleteOptions{}))
	testkit.Must(t, <-got)
	testkit.Must(t, c.FreeCloudResources(ctx, FreeOptions{}))
	for _, name := range []string{"inside", "others"} {
		_, err := c.set.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		testkit.Must(t, err)
	}
	p, err := c.set.CoreV1().PersistentVolumeClaims("default").Get(ctx, "foreign", metav1.GetOptions{})
	testkit.Must(t, err)
	if p.DeletionTimestamp != nil {
		t.Error("the claim of a volume that is not the cluster's is being deleted")
	}
}
