package kube

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// away is how long after its end a pod that still exists counts as being on a machine that does not answer.
const away = 30 * time.Second

// RemoveReporter deletes the DaemonSet of an addon that keeps conditions of nodes, waits until its pods are gone, and removes the conditions, because no other program does. It does
// nothing if the DaemonSet belongs to another owner by now. The pods have the label app.kubernetes.io/name.
func RemoveReporter(ctx context.Context, c *Client, namespace, name string, conditions []string) error {
	sets := c.set.AppsV1().DaemonSets(namespace)
	live, err := sets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // an interrupted run deleted it
	case err != nil:
		return apiError(ctx, err, "get DaemonSet %s/%s", namespace, name).At(c.server)
	case live.Labels[objects.AddonLabel] != name:
		return nil
	default:
		err := sets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &live.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "delete DaemonSet %s/%s", namespace, name).At(c.server)
		}
	}
	err = poll(ctx, time.Second, func(ctx context.Context) error {
		pods, err := c.set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return apiError(ctx, err, "list the pods of %s", name).At(c.server)
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil || time.Since(p.DeletionTimestamp.Time) < away {
				return fail.New(fail.NotReady, "pod %s on %s is not gone yet", p.Name, p.Spec.NodeName).At(c.server)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return DropConditions(ctx, c, conditions)
}

// DropConditions removes conditions of these types from all nodes.
func DropConditions(ctx context.Context, c *Client, conditions []string) error {
	nodes, err := listNodes(ctx, c)
	if err != nil {
		return apiError(ctx, err, "list the nodes").At(c.server)
	}
	for i := range nodes {
		var drop []map[string]string
		for _, held := range nodes[i].Status.Conditions {
			if slices.Contains(conditions, string(held.Type)) {
				drop = append(drop, map[string]string{"type": string(held.Type), "$patch": "delete"})
			}
		}
		if len(drop) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": drop}})
		if err != nil {
			return fail.Wrap(fail.Internal, err, "remove conditions of node %s", nodes[i].Name)
		}
		_, err = c.set.CoreV1().Nodes().Patch(ctx, nodes[i].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "remove conditions of node %s", nodes[i].Name).At(c.server)
		}
	}
	return nil
}
