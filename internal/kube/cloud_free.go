package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// FreeOptions are the parameters of FreeCloudResources.
type FreeOptions struct {
	KeepVolumes bool                             // leave PersistentVolumeClaims and their volumes alone
	Driver      string                           // CSI driver whose volumes are freed; empty: cinder.csi.openstack.org
	Timeout     time.Duration                    // time limit; 0 means 10 minutes
	Status      func(format string, args ...any) // receives what FreeCloudResources waits for; may be nil
}

func (o FreeOptions) driver() string {
	if o.Driver == "" {
		return "cinder.csi.openstack.org"
	}
	return o.Driver
}

// freePause is the interval between checks: with several kinds and namespaces, polling is simpler than watching.
const freePause = time.Second

// FreeCloudResources deletes the objects for which the cluster's controllers hold resources of the cloud, so that those controllers give the
// resources back: Services of type LoadBalancer and, unless o.KeepVolumes is set, PersistentVolumeClaims with their volumes, whatever their reclaim
// policy. To free volumes it cordons all nodes, so that no more pods are scheduled, and deletes StatefulSets that make claims and pods that use
// claims. It is for clusters that are about to be destroyed; it keeps cloud resources that the cluster uses but did not create. It returns when all
// objects are gone; otherwise fail.NotReady names each remaining object with its reason. A repeated call resumes.
func (c *Client) FreeCloudResources(ctx context.Context, o FreeOptions) error {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Status == nil {
		o.Status = func(string, ...any) {}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if all, err := c.cloudObjects(ctx, o); err != nil || all.count() == 0 {
		return err
	}
	if !o.KeepVolumes {
		if err := c.stopUsers(ctx); err != nil {
			return err
		}
	}
	err := poll(ctx, freePause, func(ctx context.Context) error { return c.freeRound(ctx, o) })
	if err == nil || fail.KindOf(err) != fail.NotReady {
		return err
	}
	return fail.Wrap(fail.NotReady, err, "give back load balancers and volumes to the cloud").At(c.server).
		Do("see to what keeps them and run it again; the logs of the cloud controller manager and of the Cinder CSI controller in kube-system say more")
}

func (a cloudObjects) count() int { return len(a.services) + len(a.claims) + len(a.volumes) }

// freeRound deletes the objects that exist and returns fail.NotReady with what keeps each of them, or nil if there are none.
func (c *Client) freeRound(ctx context.Context, o FreeOptions) error {
	all, err := c.cloudObjects(ctx, o)
	if err != nil || all.count() == 0 {
		return err
	}
	o.Status("waiting for the cloud to delete %s", all.summary())
	if err := c.deleteCloudObjects(ctx, all); err != nil {
		return err
	}
	users, err := c.deleteUsers(ctx, all.claims)
	if err != nil {
		return err
	}
	blockers, err := c.blockers(ctx, all, users)
	if err != nil {
		return err
	}
	return fail.New(fail.NotReady, "%s", strings.Join(blockers, "; "))
}

// deleteCloudObjects deletes objects that are not being deleted yet. A claim's deletion deletes its volume, too; see deleteVolume for others.
func (c *Client) deleteCloudObjects(ctx context.Context, all cloudObjects) error {
	for i := range all.volumes {
		if err := c.deleteVolume(ctx, &all.volumes[i]); err != nil {
			return err
		}
	}
	for _, p := range all.claims {
		if p.DeletionTimestamp != nil {
			continue
		}
		if err := c.set.CoreV1().PersistentVolumeClaims(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "delete PersistentVolumeClaim %s", manifest.Key(p.Namespace, p.Name)).At(c.server)
		}
	}
	for _, s := range all.services {
		if s.DeletionTimestamp != nil {
			continue
		}
		if err := c.set.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "delete Service %s", manifest.Key(s.Namespace, s.Name)).At(c.server)
		}
	}
	return nil
}

// deleteVolume sets a volume's reclaim policy to Delete, so that the driver deletes the volume when its claim is gone: at once if it is gone
// already. A volume to which no claim is bound (phase Available) is not released, so deleteVolume deletes it itself.
func (c *Client) deleteVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		patch := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
		_, err := c.set.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "have volume %s deleted with its claim", v.Name).At(c.server)
		}
	}
	if v.Status.Phase != corev1.VolumeAvailable || v.DeletionTimestamp != nil {
		return nil
	}
	if err := c.set.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return apiError(ctx, err, "delete PersistentVolume %s", v.Name).At(c.server)
	}
	return nil
}

// stopUsers cordons all nodes, so that no pod is scheduled, and deletes StatefulSets that would create claims again.
func (c *Client) stopUsers(ctx context.Context) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Unschedulable {
			continue
		}
		if err := c.Cordon(ctx, n.Name); err != nil && fail.KindOf(err) != fail.NotFound {
			return err
		}
	}
	sets, err := c.set.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return apiError(ctx, err, "list StatefulSets").At(c.server)
	}
	background := metav1.DeletePropagationBackground
	for _, s := range sets.Items {
		if len(s.Spec.VolumeClaimTemplates) == 0 || s.DeletionTimestamp != nil {
			continue
		}
		err := c.set.AppsV1().StatefulSets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "delete StatefulSet %s", manifest.Key(s.Namespace, s.Name)).At(c.server)
		}
	}
	return nil
}

// deleteUsers deletes the scheduled pods that use claims and returns all that it found, by claim. A pod on a node that is not ready, or does
// not exist, is deleted without a grace period, because no kubelet would confirm its end.
func (c *Client) deleteUsers(ctx context.Context, claims []corev1.PersistentVolumeClaim) (map[string][]string, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	pods, err := listPods(ctx, c, "")
	if err != nil {
		return nil, apiError(ctx, err, "list pods").At(c.server)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for i := range pods {
		p := &pods[i]
		used := claimsOf(p, claims)
		if len(used) == 0 || p.Spec.NodeName == "" {
			continue
		}
		silent := !slices.ContainsFunc(nodes, func(n NodeInfo) bool { return n.Name == p.Spec.NodeName && n.Ready })
		if err := c.deleteUser(ctx, p, silent); err != nil {
			return nil, err
		}
		for _, u := range used {
			users[u] = append(users[u], p.Name+" on "+p.Spec.NodeName)
		}
	}
	return users, nil
}

func (c *Client) deleteUser(ctx context.Context, p *corev1.Pod, silent bool) error {
	var o metav1.DeleteOptions
	if silent {
		now := int64(0)
		o.GracePeriodSeconds = &now
	} else if p.DeletionTimestamp != nil {
		return nil
	}
	if err := c.set.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, o); err != nil && !apierrors.IsNotFound(err) {
		return apiError(ctx, err, "delete pod %s", manifest.Key(p.Namespace, p.Name)).At(c.server)
	}
	return nil
}

// claimsOf returns the keys of the given claims that a pod uses.
func claimsOf(p *corev1.Pod, claims []corev1.PersistentVolumeClaim) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = p.Name + "-" + v.Name
		}
		if name != "" && slices.ContainsFunc(claims, func(x corev1.PersistentVolumeClaim) bool { return x.Namespace == p.Namespace && x.Name == name }) {
			out = append(out, manifest.Key(p.Namespace, name))
		}
	}
	return out
}
