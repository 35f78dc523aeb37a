package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selecting returns the names of the disruption budgets that select a pod, sorted.
func selecting(p corev1.Pod, budgets []policyv1.PodDisruptionBudget) (names []string) {
	for _, b := range budgets {
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == p.Namespace && sel.Matches(labels.Set(p.Labels)) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Unevictable is a pod that the API never evicts, because several disruption budgets select it.
type Unevictable struct {
	Node string
	Pod  string // namespace/name
	Why  string // one sentence
}

// UnevictableOn returns the unevictable pods on the given nodes, sorted.
func UnevictableOn(ctx context.Context, c *Client, nodes []string) (found []Unevictable, _ error) {
	budgets, err := c.set.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list the disruption budgets").At(c.server)
	}
	if len(budgets.Items) < 2 {
		return nil, nil
	}
	for _, node := range nodes {
		pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",status.phase=Running"})
		if err != nil {
			return nil, apiError(ctx, err, "list the pods on node %s", node).At(c.server)
		}
		for _, p := range pods.Items {
			if owner := metav1.GetControllerOf(&p); owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") { // a drain leaves it
				continue
			}
			if p.Spec.NodeName == node && len(selecting(p, budgets.Items)) > 1 {
				why := "drain of node " + node + " would fail: " + blocker(p, budgets.Items) + "; let one disruption budget select the pod"
				found = append(found, Unevictable{Node: node, Pod: p.Namespace + "/" + p.Name, Why: why})
			}
		}
	}
	slices.SortFunc(found, func(a, b Unevictable) int { return strings.Compare(a.Why, b.Why) })
	return found, nil
}
