package proof

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// WaitConditions waits until each pod of a DaemonSet has set conditions of these types on its node since it started, bounded by ctx. It returns the number of nodes, and
// the conditions that are true: "ReadonlyFilesystem on n1 (message)". It finds the pods by the label app.kubernetes.io/name.
func WaitConditions(ctx context.Context, c *kube.Client, app string, conditions []string) (nodes int, problems []string, err error) {
	err = answer.Poll(ctx, pause, func(ctx context.Context) error {
		nodes, problems = 0, nil
		pods, err := kube.Set(c).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
		if err != nil {
			return kube.APIError(ctx, err, "list the pods of %s", app).At(c.Server())
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil {
				continue
			}
			found, err := conditionsOf(ctx, c, p, conditions)
			if err != nil {
				return err
			}
			nodes++
			problems = append(problems, found...)
		}
		if nodes == 0 {
			return fail.New(fail.NotReady, "%s has no pods", app).At(c.Server())
		}
		slices.Sort(problems)
		return nil
	})
	return nodes, problems, err
}

// conditionsOf returns fail.NotReady until a pod has set its conditions on its node, and then the true ones.
func conditionsOf(ctx context.Context, c *kube.Client, p *corev1.Pod, conditions []string) (problems []string, err error) {
	var began metav1.Time
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil {
			began = s.State.Running.StartedAt
		}
	}
	if began.IsZero() {
		return nil, fail.New(fail.NotReady, "pod %s on %s does not run", p.Name, p.Spec.NodeName).At(c.Server())
	}
	node, err := kube.Set(c).CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, awaited(ctx, c, err, "get node %s", p.Spec.NodeName)
	}
	for _, want := range conditions {
		i := slices.IndexFunc(node.Status.Conditions, func(held corev1.NodeCondition) bool { return string(held.Type) == want })
		if i < 0 || node.Status.Conditions[i].LastHeartbeatTime.Before(&began) {
			return nil, fail.New(fail.NotReady, "pod %s has not set the condition %s of node %s yet", p.Name, want, node.Name).At(c.Server()).
				Do("look at the log: kubectl logs -n %s %s", p.Namespace, p.Name)
		}
		if held := node.Status.Conditions[i]; held.Status == corev1.ConditionTrue {
			problems = append(problems, fmt.Sprintf("%s on %s (%s)", want, node.Name, held.Message))
		}
	}
	return problems, nil
}
