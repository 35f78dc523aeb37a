package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// CloudResource is an object of the cluster that has a resource in the cloud.
type CloudResource struct {
	Kind      string // "Service", "PersistentVolumeClaim", "PersistentVolume"
	Namespace string // empty for a PersistentVolume
	Name      string
	Holds     string // the resource: "load balancer at 203.0.113.4", "volume 5c1f… of 10Gi"
	Volume    string // the volume's ID in the cloud; empty: it has none
}

// String describes the resource for messages: "Service web/front (load balancer at 203.0.113.4)".
func (r CloudResource) String() string {
	return fmt.Sprintf("%s %s (%s)", r.Kind, manifest.Key(r.Namespace, r.Name), r.Holds)
}

// cloudObjects are the objects of a cluster that have resources in the cloud.
type cloudObjects struct {
	services []corev1.Service               // of type LoadBalancer
	claims   []corev1.PersistentVolumeClaim // with a volume that the driver created, or without one yet
	volumes  []corev1.PersistentVolume      // that the driver created
}

// CloudResources lists what FreeCloudResources would free.
func (c *Client) CloudResources(ctx context.Context, o FreeOptions) ([]CloudResource, error) {
	all, err := c.cloudObjects(ctx, o)
	if err != nil {
		return nil, err
	}
	var out []CloudResource
	for i := range all.services {
		s := &all.services[i]
		out = append(out, CloudResource{"Service", s.Namespace, s.Name, balancerOf(s), ""})
	}
	claimed := map[string]bool{}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range all.volumes {
		volumes[all.volumes[i].Name] = &all.volumes[i]
	}
	for i := range all.claims {
		p := &all.claims[i]
		holds, volume := "no volume yet", ""
		if v := volumes[p.Spec.VolumeName]; v != nil {
			holds, volume, claimed[v.Name] = volumeOf(v), v.Spec.CSI.VolumeHandle, true
		}
		out = append(out, CloudResource{"PersistentVolumeClaim", p.Namespace, p.Name, holds, volume})
	}
	for i := range all.volumes {
		if v := &all.volumes[i]; !claimed[v.Name] {
			out = append(out, CloudResource{"PersistentVolume", "", v.Name, volumeOf(v), v.Spec.CSI.VolumeHandle})
		}
	}
	return out, nil
}

func balancerOf(s *corev1.Service) string {
	var at []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		at = append(at, in.IP+in.Hostname)
	}
	if len(at) == 0 {
		return "load balancer without an address yet"
	}
	return "load balancer at " + strings.Join(at, ", ")
}

func volumeOf(v *corev1.PersistentVolume) string {
	size := v.Spec.Capacity[corev1.ResourceStorage]
	return fmt.Sprintf("volume %s of %s", v.Spec.CSI.VolumeHandle, size.String())
}

// NamedVolume is a PersistentVolume, and the volume of the cloud that it names.
type NamedVolume struct {
	Name   string // of the PersistentVolume
	Claim  string // "namespace/name" that it is bound to; empty: none
	Volume string // the volume's ID in the cloud
}

// NamedVolumes lists all PersistentVolumes of a CSI driver, also those with volumes that users created.
func (c *Client) NamedVolumes(ctx context.Context, driver string) ([]NamedVolume, error) {
	list, err := c.set.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list PersistentVolumes").At(c.server)
	}
	var out []NamedVolume
	for _, v := range list.Items {
		if v.Spec.CSI == nil || v.Spec.CSI.Driver != driver {
			continue
		}
		n := NamedVolume{Name: v.Name, Volume: v.Spec.CSI.VolumeHandle}
		if r := v.Spec.ClaimRef; r != nil {
			n.Claim = r.Namespace + "/" + r.Name
		}
		out = append(out, n)
	}
	return out, nil
}

// cloudObjects lists the objects that have resources in the cloud. It leaves out volumes that the cluster uses but did not create, and Services with
// a load balancer class, which another controller serves.
func (c *Client) cloudObjects(ctx context.Context, o FreeOptions) (cloudObjects, error) {
	var all cloudObjects
	services, err := c.set.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, apiError(ctx, err, "list Services").At(c.server)
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil {
			all.services = append(all.services, s)
		}
	}
	if o.KeepVolumes {
		return all, nil
	}
	volumes, err := c.set.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, apiError(ctx, err, "list PersistentVolumes").At(c.server)
	}
	for _, v := range volumes.Items {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == o.driver() && v.Annotations[provisionedBy] == o.driver() {
			all.volumes = append(all.volumes, v)
		}
	}
	claims, err := c.set.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, apiError(ctx, err, "list PersistentVolumeClaims").At(c.server)
	}
	for _, p := range claims.Items {
		made := slices.ContainsFunc(all.volumes, func(v corev1.PersistentVolume) bool { return v.Name == p.Spec.VolumeName })
		if made || p.Spec.VolumeName == "" && p.Annotations[claimProvisioner] == o.driver() {
			all.claims = append(all.claims, p)
		}
	}
	return all, nil
}

// Annotations that name the provisioner that will create, or has created, a claim's volume.
const (
	claimProvisioner = "volume.kubernetes.io/storage-provisioner"
	provisionedBy    = "pv.kubernetes.io/provisioned-by"
)
