//go:build integration

package kube

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/testkit"
)

// kubelets plays scheduler and kubelet for some nodes: pods are bound to a node, become ready (or not, see stuck), exit if they are clients, and
// disappear when they are deleted.
type kubelets struct {
	t     *testing.T
	c     *Client
	nodes []string
	mu    sync.Mutex
	stuck string // image whose pods can't be pulled
	hang  string // name prefix of pods that don't terminate
	exit  int32  // status that client containers exit with
}

func startKubelets(t *testing.T, c *Client, nodes ...string) *kubelets {
	k := &kubelets{t: t, c: c, nodes: nodes}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.round(ctx)
			time.Sleep(30 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return k
}

func (k *kubelets) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *kubelets) round(ctx context.Context) {
	list, err := k.c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list.Items {
		// Forbidden: the pod's namespace is being deleted.
		if err := k.handle(ctx, &list.Items[i], list.Items); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
			k.t.Errorf("kubelets: %v", err)
		}
	}
}

func (k *kubelets) handle(ctx context.Context, p *corev1.Pod, all []corev1.Pod) error {
	pods := k.c.set.CoreV1().Pods(p.Namespace)
	switch {
	case p.DeletionTimestamp != nil:
		if k.hang != "" && strings.HasPrefix(p.Name, k.hang) {
			return nil
		}
		zero := int64(0)
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	case p.Spec.NodeName == "":
		node := k.place(p, all)
		if node == "" {
			return nil
		}
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	case p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) == 0:
		patch, err := json.Marshal(map[string]any{"status": k.status(p)})
		if err != nil {
			return err
		}
		_, err = pods.Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}
	return nil
}

// place is the scheduler: it chooses the node of the affinity (daemon pods, the smoke test's), else the first that is not cordoned; it never places
// two pods with the same labels on one node.
func (k *kubelets) place(p *corev1.Pod, all []corev1.Pod) string {
	var allowed []string
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range term.MatchFields {
				allowed = append(allowed, f.Values...)
			}
		}
	}
	for _, n := range k.nodes {
		if len(allowed) > 0 && !slices.Contains(allowed, n) {
			continue
		}
		taken := slices.ContainsFunc(all, func(o corev1.Pod) bool {
			return o.Spec.NodeName == n && o.Namespace == p.Namespace && o.Labels["app"] == p.Labels["app"] && p.Spec.Affinity != nil
		})
		node, err := k.c.Node(context.Background(), n)
		if !taken && err == nil && (!node.Unschedulable || len(allowed) > 0) {
			return n
		}
	}
	return ""
}

func (k *kubelets) status(p *corev1.Pod) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.244.0.5", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, c := range p.Spec.Containers {
		cs := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if c.Image == k.stuck {
			s.Phase = corev1.PodPending
			s.Conditions[0].Status = corev1.ConditionFalse
			cs.Ready, cs.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}
		}
		if c.Image != k.stuck && slices.Contains(c.Command, "get") {
			s.Phase = corev1.PodSucceeded
			cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: k.exit, Message: "what the client said"}}
		}
		s.ContainerStatuses = append(s.ContainerStatuses, cs)
	}
	return s
}

// addNode registers a node as kubelet would, ready or not.
func addNode(t *testing.T, c *Client, name string, ready bool, taints ...corev1.Taint) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}, Spec: corev1.NodeSpec{Taints: taints}}
	n, err := c.set.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	testkit.Must(t, err)
	n.Spec.Taints = taints // without the one for new nodes, which a controller that does not run here would take away
	_, err = c.set.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	testkit.Must(t, err)
	setReady(t, c, name, ready)
}

func setReady(t *testing.T, c *Client, name string, ready bool) {
	t.Helper()
	n, err := c.set.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	testkit.Must(t, err)
	cond := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	if !ready {
		cond = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "network plugin is missing"}
	}
	n.Status.Conditions = []corev1.NodeCondition{cond}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
	_, err = c.set.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	testkit.Must(t, err)
}
