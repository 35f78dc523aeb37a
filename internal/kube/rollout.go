package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// WaitDeployment watches until every replica of a Deployment is updated and available. If ctx ends first, fail.NotReady names
// the pods that are not, with the reasons.
func (c *Client) WaitDeployment(ctx context.Context, namespace, name string) error {
	return c.waitRollout(ctx, "Deployment", namespace, name, follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.AppsV1().Deployments(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.AppsV1().Deployments(namespace).Watch(ctx, o)
		},
	})
}

// WaitDaemonSet watches until every pod of a DaemonSet is updated and available, or ctx ends, like WaitDeployment. A DaemonSet
// that selects no node counts as rolled out.
func (c *Client) WaitDaemonSet(ctx context.Context, namespace, name string) error {
	return c.waitRollout(ctx, "DaemonSet", namespace, name, follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.AppsV1().DaemonSets(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.AppsV1().DaemonSets(namespace).Watch(ctx, o)
		},
	})
}

func (c *Client) waitRollout(ctx context.Context, kind, namespace, name string, f follower) error {
	f.field = "metadata.name=" + name
	state := progress{missing: "it does not exist"}
	err := follow(ctx, f, func(objects map[string]runtime.Object) (bool, error) {
		if f.vanishes && len(objects) == 0 {
			return true, nil
		}
		state = rollout(objects[manifest.Key(namespace, name)])
		if state.failed {
			return false, &fail.Error{Kind: fail.NotReady, What: "it does not run again by itself", Final: true}
		}
		return state.missing == "", nil
	})
	if err == nil {
		return nil
	}
	e := fail.Wrap(fail.KindOf(err), err, "wait for %s %s/%s: %s", kind, namespace, name, state.missing).At(c.server)
	e.Final = state.failed
	if why := append(failedCreates(ctx, c, kind, namespace, name), c.troubles(ctx, namespace, state.selector)...); len(why) > 0 {
		e.What += ": " + strings.Join(why, "; ")
	}
	return e
}

// progress says what a rollout still lacks (empty: nothing), and selects its pods.
type progress struct {
	missing  string
	selector *metav1.LabelSelector
	failed   bool // for good
}

func rollout(o runtime.Object) progress {
	switch w := o.(type) {
	case *appsv1.Deployment:
		want := int32(1)
		if w.Spec.Replicas != nil {
			want = *w.Spec.Replicas
		}
		s := w.Status
		if w.Spec.Paused { // its controller replaces no pod, and makes none of a new template
			s.UpdatedReplicas = s.Replicas
			if s.Replicas == 0 {
				want = 0
			}
		}
		return progress{selector: w.Spec.Selector, missing: lacking(w.Generation, s.ObservedGeneration, want, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)}
	case *appsv1.StatefulSet:
		return statefulSetProgress(w)
	case *batchv1.Job:
		return jobProgress(w)
	case *corev1.Pod:
		return podProgress(w)
	case *appsv1.DaemonSet:
		s := w.Status
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType { // pods stay until people delete them
			s.UpdatedNumberScheduled = s.DesiredNumberScheduled
		}
		return progress{selector: w.Spec.Selector, missing: lacking(w.Generation, s.ObservedGeneration, s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberAvailable, s.UpdatedNumberScheduled)}
	}
	return progress{missing: "it does not exist"}
}

func lacking(generation, observed int64, want, updated, available, total int32) string {
	switch {
	case observed < generation:
		return "its controller has not seen it yet"
	case updated < want:
		return fmt.Sprintf("%d of %d pods updated", updated, want)
	case total > updated:
		return fmt.Sprintf("%d old pods still there", total-updated)
	case available < want:
		return fmt.Sprintf("%d of %d pods available", available, want)
	}
	return ""
}

// failedCreates returns why the API server rejects new pods of a workload, such as for a quota or Pod Security. It reads the newest events, because
// only a Deployment's status has the reason.
func failedCreates(ctx context.Context, c *Client, kind, namespace, name string) (out []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	list, err := c.set.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
	if err != nil {
		return []string{"its events can't be listed: " + err.Error()}
	}
	newest := map[string]corev1.Event{} // by object
	for _, e := range list.Items {
		o := e.InvolvedObject
		if ours := o.Kind == kind && o.Name == name || kind == "Deployment" && o.Kind == "ReplicaSet" && replicaSetOf(o.Name, name); !ours {
			continue
		}
		if last, seen := newest[o.Kind+o.Name]; !seen || happened(last).Before(happened(e)) {
			newest[o.Kind+o.Name] = e
		}
	}
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		out = append(out, "pods are refused: "+lastLine(newest[key].Message))
	}
	return out
}

// replicaSetOf reports whether a ReplicaSet's name is that of a Deployment with a hash.
func replicaSetOf(set, deployment string) bool {
	hash, ok := strings.CutPrefix(set, deployment+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// happened returns the time of an event.
func happened(e corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// troubles returns, for each pod that is not ready, the reason if one is known; if the API does not answer, it says so instead.
func (c *Client) troubles(ctx context.Context, namespace string, selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return []string{"its selector can't be used: " + err.Error()}
	}
	list, err := c.set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.String()})
	if err != nil {
		return []string{"its pods can't be listed: " + err.Error()}
	}
	var out []string
	for i := range list.Items {
		if why := trouble(&list.Items[i]); why != "" {
			out = append(out, why)
		}
	}
	slices.Sort(out)
	return out
}

// trouble says why a pod is not ready: not scheduled, image, crash, probe. Empty for a pod that is ready or done.
func trouble(p *corev1.Pod) string {
	where := "pod " + p.Name
	if p.Spec.NodeName != "" {
		where += " on " + p.Spec.NodeName
	}
	if p.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		if why := containerTrouble(s); why != "" {
			return where + ": container " + s.Name + ": " + why
		}
	}
	for _, c := range p.Status.Conditions {
		bad := c.Status != corev1.ConditionTrue && (c.Type == corev1.PodScheduled || c.Type == corev1.PodReady)
		if bad && c.Type == corev1.PodScheduled {
			return where + ": not scheduled: " + c.Message
		}
		if bad {
			return where + ": not ready: " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	if len(p.Status.Conditions) == 0 {
		return where + ": " + string(p.Status.Phase) + ", nothing reported yet"
	}
	return ""
}

func containerTrouble(s corev1.ContainerStatus) string {
	if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
		why := strings.TrimSpace(w.Reason + " " + w.Message)
		if t := s.LastTerminationState.Terminated; t != nil {
			why += fmt.Sprintf(" (last exit status %d %s)", t.ExitCode, lastLine(t.Message))
		}
		return why
	}
	if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
		return strings.TrimSpace(fmt.Sprintf("exited with status %d: %s %s", t.ExitCode, t.Reason, lastLine(t.Message)))
	}
	return ""
}

// lastLine returns the end of the last line of a termination message, which may be a container's whole log.
func lastLine(message string) string {
	message = strings.TrimSpace(message)
	message = message[strings.LastIndexByte(message, '\n')+1:]
	if most := 400; len(message) > most {
		message = "…" + strings.ToValidUTF8(message[len(message)-most:], "")
	}
	return message
}
