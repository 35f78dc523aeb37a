package kube

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/kube/objects"
)

// Waitable reports whether WaitWorkload waits for objects of a kind.
func Waitable(apiVersion, kind string) bool {
	switch apiVersion + "/" + kind {
	case "apps/v1/Deployment", "apps/v1/DaemonSet", "apps/v1/StatefulSet", "batch/v1/Job":
		return true
	}
	return false
}

// WaitObject is WaitWorkload of an object as it was applied, and waits until a Pod has ended. A Job that the cluster deletes when it has ended, and that is gone, has ended.
func WaitObject(ctx context.Context, c *Client, u *unstructured.Unstructured) error {
	switch {
	case objects.Vanishes(u):
		return c.waitJob(ctx, u.GetNamespace(), u.GetName(), true)
	case u.GetKind() == "Pod":
		return c.waitPod(ctx, u.GetNamespace(), u.GetName())
	}
	return WaitWorkload(ctx, c, u.GetKind(), u.GetNamespace(), u.GetName())
}

// WaitWorkload watches until a Deployment, DaemonSet or StatefulSet is rolled out, or a Job is complete. If ctx ends first, fail.NotReady names the pods that
// are not ready, with the reasons. A Job that fails ends the wait.
func WaitWorkload(ctx context.Context, c *Client, kind, namespace, name string) error {
	switch kind {
	case "DaemonSet":
		return c.WaitDaemonSet(ctx, namespace, name)
	case "StatefulSet":
		return c.waitRollout(ctx, kind, namespace, name, follower{
			list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return c.set.AppsV1().StatefulSets(namespace).List(ctx, o)
			},
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.watch.AppsV1().StatefulSets(namespace).Watch(ctx, o)
			},
		})
	case "Job":
		return c.waitJob(ctx, namespace, name, false)
	}
	return c.WaitDeployment(ctx, namespace, name)
}

func (c *Client) waitJob(ctx context.Context, namespace, name string, vanishes bool) error {
	return c.waitRollout(ctx, "Job", namespace, name, follower{
		vanishes: vanishes,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.BatchV1().Jobs(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.BatchV1().Jobs(namespace).Watch(ctx, o)
		},
	})
}

func (c *Client) waitPod(ctx context.Context, namespace, name string) error {
	return c.waitRollout(ctx, "Pod", namespace, name, follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().Pods(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
}

// podProgress is the progress of a Pod that must end.
func podProgress(p *corev1.Pod) progress {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return progress{}
	case corev1.PodFailed:
		return progress{missing: "it failed: " + strings.TrimPrefix(trouble(p), "pod "), failed: true}
	}
	missing := "it has not ended"
	if why := trouble(p); why != "" {
		missing += ": " + why
	}
	return progress{missing: missing}
}

func statefulSetProgress(w *appsv1.StatefulSet) progress {
	want := int32(1)
	if w.Spec.Replicas != nil {
		want = *w.Spec.Replicas
	}
	s, updated := w.Status, w.Status.UpdatedReplicas
	if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || s.CurrentRevision == s.UpdateRevision {
		updated = max(updated, s.CurrentReplicas)
	}
	if r := w.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil && *r.Partition > 0 { // the others intentionally stay behind
		updated = want
	}
	return progress{selector: w.Spec.Selector, missing: lacking(w.Generation, s.ObservedGeneration, want, updated, s.ReadyReplicas, updated)}
}

func jobProgress(j *batchv1.Job) progress {
	p := progress{selector: j.Spec.Selector, missing: fmt.Sprintf("it is not complete, %d of its pods failed", j.Status.Failed)}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			p.missing = ""
		case c.Type == batchv1.JobFailed:
			p.missing, p.failed = "it failed: "+c.Message, true
		}
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		p.missing = "" // a user resumes it later
	}
	return p
}
