package running

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/kube"
)

// read reads one page of a kind.
func read(ctx context.Context, c *kube.Client, ask Ask, o metav1.ListOptions) (page, error) {
	set := kube.Set(c)
	switch ask.Kind {
	case Deployments:
		list, err := set.AppsV1().Deployments(ask.Namespace).List(ctx, o)
		if err != nil {
			return page{}, err
		}
		return paged(list.Items, list.Continue, ofDeployment), nil
	case StatefulSets:
		list, err := set.AppsV1().StatefulSets(ask.Namespace).List(ctx, o)
		if err != nil {
			return page{}, err
		}
		return paged(list.Items, list.Continue, ofStatefulSet), nil
	case DaemonSets:
		list, err := set.AppsV1().DaemonSets(ask.Namespace).List(ctx, o)
		if err != nil {
			return page{}, err
		}
		return paged(list.Items, list.Continue, ofDaemonSet), nil
	case Jobs:
		list, err := set.BatchV1().Jobs(ask.Namespace).List(ctx, o)
		if err != nil {
			return page{}, err
		}
		return paged(list.Items, list.Continue, ofJob), nil
	}
	list, err := set.CoreV1().Pods(ask.Namespace).List(ctx, o)
	if err != nil {
		return page{}, err
	}
	return paged(list.Items, list.Continue, ofPod), nil
}

// paged describes objects. An API server may send more than requested.
func paged[T any](items []T, next string, of func(*T) Workload) page {
	p := page{next: next}
	for i := range items[:min(len(items), objectsRead)] {
		p.items = append(p.items, of(&items[i]))
	}
	return p
}

// common describes the properties of all kinds.
func common(m *metav1.ObjectMeta, spec *corev1.PodSpec) Workload {
	w := Workload{Namespace: clean(m.Namespace), Name: clean(m.Name), Created: m.CreationTimestamp.Time}
	var images []string
	for i := range spec.Containers {
		images = append(images, spec.Containers[i].Image)
	}
	w.Images = cleaned(images, maxImages)
	return w
}

// ofPod describes a pod as kubectl does, with the reason why it is not ready.
func ofPod(p *corev1.Pod) Workload {
	w := common(&p.ObjectMeta, &p.Spec)
	w.Node, w.State, w.Why = clean(p.Spec.NodeName), clean(string(p.Status.Phase)), clean(kube.Trouble(p))
	w.OK = w.Why == ""
	var names []string
	for i := range p.Spec.Containers {
		names = append(names, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.InitContainers {
		names = append(names, p.Spec.InitContainers[i].Name)
	}
	w.Containers = cleaned(names, maxNames)
	ready := 0
	for _, s := range p.Status.ContainerStatuses {
		w.Restarts += int(s.RestartCount)
		if s.Ready {
			ready++
		}
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			w.State = clean(s.State.Waiting.Reason)
		}
	}
	w.Ready = fmt.Sprintf("%d of %d", ready, len(p.Spec.Containers))
	switch {
	case p.DeletionTimestamp != nil:
		w.State = "Terminating"
	case p.Status.Phase == corev1.PodFailed:
		w.OK = false
		if w.Why == "" {
			w.Why = clean(p.Status.Reason + " " + p.Status.Message)
		}
	}
	return w
}

func ofDeployment(d *appsv1.Deployment) Workload {
	w := common(&d.ObjectMeta, &d.Spec.Template.Spec)
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	w.scaled(d.Generation, d.Status.ObservedGeneration, want, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Spec.Selector)
	var said []string
	for _, c := range d.Status.Conditions {
		if bad := c.Status != corev1.ConditionTrue; c.Type == appsv1.DeploymentProgressing && bad || c.Type == appsv1.DeploymentReplicaFailure && !bad {
			said = append(said, c.Message)
			w.OK = false
		}
	}
	w.Why = clean(strings.Join(said, "; "))
	return w
}

func ofStatefulSet(s *appsv1.StatefulSet) Workload {
	w := common(&s.ObjectMeta, &s.Spec.Template.Spec)
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	updated := s.Status.UpdatedReplicas
	if s.Status.CurrentRevision == s.Status.UpdateRevision {
		updated = want
	}
	w.scaled(s.Generation, s.Status.ObservedGeneration, want, updated, s.Status.ReadyReplicas, s.Spec.Selector)
	return w
}

func ofDaemonSet(d *appsv1.DaemonSet) Workload {
	w := common(&d.ObjectMeta, &d.Spec.Template.Spec)
	w.scaled(d.Generation, d.Status.ObservedGeneration, d.Status.DesiredNumberScheduled, d.Status.UpdatedNumberScheduled, d.Status.NumberReady, d.Spec.Selector)
	return w
}

// scaled describes a workload by its numbers of pods.
func (w *Workload) scaled(generation, observed int64, want, updated, ready int32, selector *metav1.LabelSelector) {
	w.Ready, w.Selector = fmt.Sprintf("%d of %d", ready, want), selected(selector)
	switch {
	case observed < generation:
		w.State = "not taken up yet"
	case updated < want:
		w.State = "rolling out"
	case ready < want:
		w.State = "incomplete"
	default:
		w.State, w.OK = "ready", true
	}
}

// selected returns a selector as Ask takes it; empty if Ask would not.
func selected(s *metav1.LabelSelector) string {
	text := metav1.FormatLabelSelector(s)
	if (Ask{Selector: text}).Check() != nil {
		return ""
	}
	return text
}

func ofJob(j *batchv1.Job) Workload {
	w := common(&j.ObjectMeta, &j.Spec.Template.Spec)
	want := int32(1)
	if j.Spec.Completions != nil {
		want = *j.Spec.Completions
	}
	w.Ready, w.Restarts = fmt.Sprintf("%d of %d", j.Status.Succeeded, want), int(j.Status.Failed)
	w.Selector = selected(j.Spec.Selector)
	w.State, w.OK = "running", j.Status.Failed == 0
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		w.State, w.OK = "suspended", true
	}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			w.State, w.OK = "complete", true
		case c.Type == batchv1.JobFailed:
			w.State, w.OK, w.Why = "failed", false, clean(c.Reason+": "+c.Message)
		}
	}
	return w
}
