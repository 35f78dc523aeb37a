package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// NodeInfo describes one node as the API reports it.
type NodeInfo struct {
	Name          string
	Ready         bool
	Reason        string   // why it is not ready; empty when it is
	Roles         []string // from node-role.kubernetes.io/ labels, sorted
	Version       string   // kubelet's
	Addresses     []string // internal ones
	Labels        map[string]string
	Annotations   map[string]string
	Taints        []Taint
	Unschedulable bool // cordoned
	PodCIDR       string
	ProviderID    string // the machine's ID at its provider; may be empty
	Capacity      map[string]string
	Allocatable   map[string]string // part of the capacity that pods may use
	Created       time.Time
	BootID        string    // boot ID of the machine when its kubelet last reported
	Changed       time.Time // since when it is ready, or not ready
	Reported      time.Time // when kubelet reported that it is ready or not, by its machine's clock, to the second
	Renewed       time.Time // when kubelet last renewed the node's lease, by the same clock
}

// tellTime is how long after its start kubelet takes to report changes of the node: it checks every 5 seconds. It may leave an unchanged status
// unreported for minutes (1.35); its lease shows that it is alive.
const tellTime = 10 * time.Second

// Stale says why kubelet's last report on the node does not count, judged by life: kubelet or containerd does not run, or the report is older
// than the last start of the machine or of kubelet. The API keeps showing that report until kubelet reports again, or the controller manager
// misses it for a while. Stale returns "" if the report counts or life does not say.
func (n NodeInfo) Stale(life machine.Life) string {
	for _, unit := range []string{"kubelet.service", "containerd.service"} {
		if state, down := life.Down[unit]; down {
			return unit + " is " + state
		}
	}
	switch began := life.Since["kubelet.service"]; {
	case life.BootID != "" && n.BootID != life.BootID:
		return "kubelet has not reported since the machine was started"
	case n.Reported.Before(began.Truncate(time.Second)) && n.Renewed.Before(began.Add(tellTime)):
		return "kubelet has not reported since it was started"
	}
	return ""
}

// Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key    string
	Value  string
	Effect string // "NoSchedule", "PreferNoSchedule", "NoExecute"
}

// Nodes lists all nodes, sorted by name.
func (c *Client) Nodes(ctx context.Context) ([]NodeInfo, error) {
	var list []corev1.Node
	var leases *coordinationv1.LeaseList
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { list, err = listNodes(gctx, c); return err })
	g.Go(func() (err error) {
		leases, err = c.set.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(gctx, metav1.ListOptions{})
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, apiError(ctx, err, "list nodes").At(c.server)
	}
	renewed := map[string]time.Time{}
	for i := range leases.Items {
		renewed[leases.Items[i].Name] = renewedAt(&leases.Items[i])
	}
	out := make([]NodeInfo, 0, len(list))
	for i := range list {
		n := nodeInfo(&list[i])
		n.Renewed = renewed[n.Name]
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Node returns one node, or fail.NotFound if it does not exist.
func (c *Client) Node(ctx context.Context, name string) (NodeInfo, error) {
	n, err := c.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return NodeInfo{}, apiError(ctx, err, "get node %s", name).At(c.server)
	}
	i := nodeInfo(n)
	lease, err := c.set.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return NodeInfo{}, apiError(ctx, err, "get the lease of node %s", name).At(c.server)
	}
	if err == nil {
		i.Renewed = renewedAt(lease)
	}
	return i, nil
}

func renewedAt(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

// quantities formats resource quantities as Kubernetes writes them.
func quantities(l corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return out
}

func nodeInfo(n *corev1.Node) NodeInfo {
	i := NodeInfo{Name: n.Name, Version: n.Status.NodeInfo.KubeletVersion, Labels: n.Labels, Annotations: n.Annotations,
		Unschedulable: n.Spec.Unschedulable, PodCIDR: n.Spec.PodCIDR, Created: n.CreationTimestamp.Time, Reason: "kubelet has not reported yet",
		BootID: n.Status.NodeInfo.BootID, ProviderID: n.Spec.ProviderID, Capacity: quantities(n.Status.Capacity), Allocatable: quantities(n.Status.Allocatable)}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			i.Reported, i.Changed = c.LastHeartbeatTime.Time, c.LastTransitionTime.Time
			i.Ready, i.Reason = c.Status == corev1.ConditionTrue, c.Reason+": "+c.Message
		}
	}
	if i.Ready {
		i.Reason = ""
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			i.Addresses = append(i.Addresses, a.Address)
		}
	}
	for k := range n.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok {
			i.Roles = append(i.Roles, role)
		}
	}
	slices.Sort(i.Roles)
	for _, t := range n.Spec.Taints {
		i.Taints = append(i.Taints, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return i
}

// NodeCondition is what WaitNodes waits for.
type NodeCondition int

// The conditions of nodes to wait for.
const (
	Registered NodeCondition = iota // the node object exists
	NodeReady                       // and kubelet reports it ready, and the taint not-ready or unreachable is gone, so that pods may come
)

// WaitNode waits for one node; see WaitNodes.
func (c *Client) WaitNode(ctx context.Context, name string, want NodeCondition) error {
	return c.WaitNodes(ctx, want, nil, name)
}

// WaitNodeReady waits until the node meets NodeReady, kubelet has reported so since the last start of the machine and of kubelet, and kubelet
// runs. ask returns the machine's life; it is called again while kubelet's report does not count.
func (c *Client) WaitNodeReady(ctx context.Context, name string, ask func(ctx context.Context) (machine.Life, error)) error {
	life, err := ask(ctx)
	if err != nil {
		return err
	}
	since := machine.Life{BootID: life.BootID}
	if err := c.waitNodes(ctx, func(o runtime.Object) string { return lacks(o, NodeReady, since) }, nil, name); err != nil {
		return err
	}
	return poll(ctx, retryPause, func(ctx context.Context) error {
		n, err := c.Node(ctx, name)
		if err != nil {
			return err
		}
		stale := n.Stale(life)
		switch {
		case !n.Ready:
			err = fail.New(fail.NotReady, "wait for nodes: %s: not ready, %s", name, n.Reason).At(c.server)
		case stale != "":
			err = fail.New(fail.NotReady, "wait for nodes: %s: not known to be ready, %s", name, stale).At(c.server)
		}
		if stale != "" {
			if now, aerr := ask(ctx); aerr == nil { // otherwise the last known life counts
				life = now
			}
		}
		return err
	})
}

// WaitNodes watches until all named nodes meet the condition. If ctx ends first, fail.NotReady says what each node lacks.
// seen, if not nil, is called once for each node that meets it.
func (c *Client) WaitNodes(ctx context.Context, want NodeCondition, seen func(name string), names ...string) error {
	return c.waitNodes(ctx, func(o runtime.Object) string { return lacks(o, want, machine.Life{}) }, seen, names...)
}

func (c *Client) waitNodes(ctx context.Context, lacks func(runtime.Object) string, seen func(name string), names ...string) error {
	met := map[string]bool{}
	var missing []string
	f := follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().Nodes().List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().Nodes().Watch(ctx, o)
		},
	}
	if len(names) == 1 {
		f.field = "metadata.name=" + names[0]
	}
	err := follow(ctx, f, func(nodes map[string]runtime.Object) (bool, error) {
		missing = nil
		for _, name := range names {
			why := lacks(nodes[name])
			if why != "" {
				missing = append(missing, name+": "+why)
				continue
			}
			if !met[name] && seen != nil {
				seen(name)
			}
			met[name] = true
		}
		return len(missing) == 0, nil
	})
	if err != nil && len(missing) > 0 {
		// The missing condition is the cause, not the time-out: omit an error that only says so.
		e := fail.New(fail.KindOf(err), "wait for nodes: %s", strings.Join(missing, "; ")).At(c.server).
			Do("look at kubelet's log on the machine: naupegos logs NAME MACHINE -u kubelet")
		if !errors.Is(err, context.DeadlineExceeded) {
			e.Err = err
		}
		return e
	}
	return err
}

// lacks returns what a node lacks for a condition, or "" if the node meets it.
func lacks(o runtime.Object, want NodeCondition, life machine.Life) string {
	n, ok := o.(*corev1.Node)
	if !ok {
		return "kubelet has not registered the node"
	}
	if want != NodeReady {
		return ""
	}
	i := nodeInfo(n)
	if stale := i.Stale(life); stale != "" {
		return "not known to be ready, " + stale
	}
	if !i.Ready {
		return "not ready, " + i.Reason
	}
	if at := slices.IndexFunc(i.Taints, keepsPodsOff); at >= 0 {
		return "ready, but the controller manager has not removed the taint " + i.Taints[at].Key + " yet"
	}
	return ""
}

// keepsPodsOff reports whether a taint keeps pods off a node until the node is known to be ready. See also tolerated.
func keepsPodsOff(t Taint) bool {
	return ofReadiness(t) && t.Effect == string(corev1.TaintEffectNoSchedule)
}

// tolerated reports whether a taint keeps no pod off a node: it is a mere preference, or a NoExecute taint of nodes that are not ready, which every
// pod tolerates for five minutes. These may stay for seconds after the taints that keepsPodsOff matches. See the API server's admission plugin
// DefaultTolerationSeconds.
func tolerated(t Taint) bool {
	return t.Effect == string(corev1.TaintEffectPreferNoSchedule) || ofReadiness(t) && t.Effect == string(corev1.TaintEffectNoExecute)
}

// ofReadiness reports whether the controller manager gives this taint to nodes that are not known to be ready.
func ofReadiness(t Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

// DeleteNode removes the node object. A node that does not exist is not an error.
func (c *Client) DeleteNode(ctx context.Context, name string) error {
	err := c.set.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return apiError(ctx, err, "delete node %s", name).At(c.server)
	}
	return nil
}
