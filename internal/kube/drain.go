package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/drain"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// DrainOptions are the parameters of Drain.
type DrainOptions struct {
	Timeout        time.Duration     // for all pods together, their termination included; 0 means 5 minutes
	Force          bool              // also pods that no controller would recreate elsewhere: they are lost
	DeleteEmptyDir bool              // also pods with emptyDir volumes: their content is lost
	GracePeriod    time.Duration     // grace period of each pod instead of its own; 0 means its own
	Dead           bool              // the machine is certainly off: no kubelet will end the pods, so Drain deletes all at once and ignores budgets
	Own            bool              // the node is annotated with OwnedCordon, unless it is cordoned already: the caller uncordons it
	Log            func(line string) // receives each eviction and, repeatedly, what holds the pods that may not be evicted; may be nil
}

// Drain cordons a node and evicts its pods except those of DaemonSets and static pods, respecting disruption budgets. fail.Refused names pods that it
// may not touch without Force or DeleteEmptyDir; fail.NotReady names the pods that did not leave in time and the budgets that hold them. The node
// always stays cordoned. A node that does not exist is not an error.
func (c *Client) Drain(ctx context.Context, node string, o DrainOptions) error {
	cordon := c.Cordon
	if o.Own {
		cordon = c.cordonForUs
	}
	if err := cordon(ctx, node); err != nil {
		if fail.KindOf(err) == fail.NotFound {
			return nil
		}
		return err
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	dctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	o.Log = c.namingBudgets(dctx, node, o.Log)
	h := c.drainer(dctx, o)
	list, errs := h.GetPodsForDeletion(node)
	if len(errs) > 0 {
		if list == nil {
			return apiError(ctx, errors.Join(errs...), "list the pods to drain from node %s", node).At(c.server)
		}
		return fail.Wrap(fail.Refused, errors.Join(errs...), "drain node %s", node).
			Do("move or delete these pods, or consent to losing them or their emptyDir data")
	}
	err := h.DeleteOrEvictPods(list.Pods())
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fail.Wrap(fail.KindOf(ctx.Err()), err, "drain node %s", node)
	}
	return c.undrained(ctx, node, h, err)
}

func (c *Client) drainer(ctx context.Context, o DrainOptions) *drain.Helper {
	log := logWriter{o.Log}
	grace := -1
	if o.GracePeriod > 0 {
		grace = int(max(1, o.GracePeriod/time.Second))
	}
	if o.Dead {
		grace, o.Force, o.DeleteEmptyDir = 0, true, true
	}
	return &drain.Helper{
		Ctx: ctx, Client: c.set, Force: o.Force, DeleteEmptyDirData: o.DeleteEmptyDir, IgnoreAllDaemonSets: true,
		DisableEviction: o.Dead, GracePeriodSeconds: grace, Timeout: o.Timeout, EvictErrorRetryDelay: time.Second, Out: log, ErrOut: log,
	}
}

// sayHeld is the interval at which a drain reports which pods are held.
const sayHeld = 5 * time.Second

// namingBudgets returns a log function that replaces drain's "error when evicting pod" with the waiting pods and the budgets that hold them.
// It is safe for concurrent use.
func (c *Client) namingBudgets(ctx context.Context, node string, log func(string)) func(string) {
	var mu sync.Mutex
	var said time.Time
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if log == nil {
			return
		}
		if !strings.HasPrefix(line, "error when evicting pod") {
			log(line)
			return
		}
		if time.Since(said) < sayHeld {
			return
		}
		held, err := c.heldOn(ctx, node)
		if err != nil || len(held) == 0 {
			log(line)
			return
		}
		said = time.Now()
		log("waiting: " + strings.Join(held, "; "))
	}
}

// heldOn describes the pods on a node that budgets hold at the moment.
func (c *Client) heldOn(ctx context.Context, node string) ([]string, error) {
	budgets, err := c.set.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	var held []string
	for _, p := range pods.Items {
		if len(holding(p, budgets.Items)) > 0 {
			held = append(held, blocker(p, budgets.Items))
		}
	}
	slices.Sort(held)
	return held, nil
}

// undrained returns an error that names the remaining pods and the reason for each.
func (c *Client) undrained(ctx context.Context, node string, h *drain.Helper, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	h.Ctx = ctx
	list, errs := h.GetPodsForDeletion(node)
	if len(errs) > 0 || len(list.Pods()) == 0 {
		return apiError(ctx, cause, "drain node %s", node).At(c.server)
	}
	budgets, err := c.set.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return apiError(ctx, errors.Join(cause, err), "drain node %s", node).At(c.server)
	}
	var left []string
	for _, p := range list.Pods() {
		left = append(left, blocker(p, budgets.Items))
	}
	slices.Sort(left)
	return notEvicted(node, left, h.Timeout, cause)
}

// blocker says why a pod remains: its own slow termination, or disruption budgets.
func blocker(p corev1.Pod, budgets []policyv1.PodDisruptionBudget) string {
	name := p.Namespace + "/" + p.Name
	if p.DeletionTimestamp != nil {
		return name + " is terminating since " + p.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	if held := holding(p, budgets); len(held) > 0 {
		return name + " is held by " + strings.Join(held, ", ")
	}
	return name + " has not been evicted"
}

// holding names the disruption budgets that forbid evicting a pod. The API never evicts a running pod that several budgets select,
// whatever they allow.
func holding(p corev1.Pod, budgets []policyv1.PodDisruptionBudget) (held []string) {
	if p.Status.Phase == corev1.PodPending { // budgets apply to running pods
		return nil
	}
	all := selecting(p, budgets)
	if len(all) > 1 {
		return []string{fmt.Sprintf("%d disruption budgets at once, %s: the API evicts no pod that more than one selects", len(all), strings.Join(all, " and "))}
	}
	for _, b := range budgets {
		if b.Namespace == p.Namespace && slices.Contains(all, b.Name) && b.Status.DisruptionsAllowed <= 0 {
			held = append(held, fmt.Sprintf("disruption budget %s (%d healthy, %d needed)", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy))
		}
	}
	return held
}

// PodInfo is one pod on a node.
type PodInfo struct {
	Namespace, Name string
	Phase           string
	Owner           string // kind of its controller: "DaemonSet", "Node" for a static pod, …; empty for none
}

// PodsOn lists the pods bound to a node, sorted by namespace and name.
func (c *Client) PodsOn(ctx context.Context, node string) ([]PodInfo, error) {
	list, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, apiError(ctx, err, "list the pods on node %s", node).At(c.server)
	}
	var out []PodInfo
	for _, p := range list.Items {
		i := PodInfo{Namespace: p.Namespace, Name: p.Name, Phase: string(p.Status.Phase)}
		if o := metav1.GetControllerOf(&p); o != nil {
			i.Owner = o.Kind
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b PodInfo) int {
		return strings.Compare(manifest.Key(a.Namespace, a.Name), manifest.Key(b.Namespace, b.Name))
	})
	return out, nil
}

// logWriter passes the output of kubectl's drain to log line by line (drain prints whole lines).
type logWriter struct{ log func(string) }

// Write implements io.Writer.
func (w logWriter) Write(p []byte) (int, error) {
	if w.log != nil {
		for line := range strings.Lines(string(p)) {
			w.log(strings.TrimSpace(line))
		}
	}
	return len(p), nil
}

var _ io.Writer = logWriter{}
