package kube

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// WaitDetached waits until a drained node has no volumes attached except those of the pods that stay on it (of DaemonSets). If ctx ends first,
// fail.NotReady names the volumes. If a machine disappears before its volumes are detached, Kubernetes withholds them from other nodes for six
// minutes.
func (c *Client) WaitDetached(ctx context.Context, node string) error {
	return poll(ctx, retryPause, func(ctx context.Context) error {
		attached, err := c.attachments(ctx)
		if err != nil {
			return err
		}
		var left []string
		for volume, nodes := range attached {
			if slices.Contains(nodes, node) {
				left = append(left, volume)
			}
		}
		if len(left) == 0 {
			return nil
		}
		used, err := c.volumesUsedOn(ctx, node)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(v string) bool { return slices.Contains(used, v) })
		if len(left) == 0 {
			return nil
		}
		slices.Sort(left)
		return fail.New(fail.NotReady, "volumes %s are still attached to node %s", strings.Join(left, ", "), node).At(c.server).
			Do("look at the logs of the volumes' CSI driver, then try again")
	})
}

// volumesUsedOn lists the PersistentVolumes of pods that are bound to a node.
func (c *Client) volumesUsedOn(ctx context.Context, node string) ([]string, error) {
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, apiError(ctx, err, "list the pods on node %s", node).At(c.server)
	}
	claims, err := c.set.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list PersistentVolumeClaims").At(c.server)
	}
	volume := map[string]string{} // by namespace and name of its claim
	for _, pvc := range claims.Items {
		volume[pvc.Namespace+"/"+pvc.Name] = pvc.Spec.VolumeName
	}
	var used []string
	for _, p := range pods.Items {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				used = append(used, volume[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName])
			}
		}
	}
	return used, nil
}
