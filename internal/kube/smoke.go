package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/machine"
)

// SmokeNamespace is the namespace of the smoke test while it runs.
const SmokeNamespace = "naupegos-smoke"

// SmokeOptions are the parameters of the smoke test.
type SmokeOptions struct {
	Image     string                           // of the bundle's echo server: /echo serves on :8080, `/echo get URL` repeats its request until it gets an answer
	DNSDomain string                           // of the cluster; empty means cluster.local
	Timeout   time.Duration                    // time limit; 0 means 2 minutes
	Status    func(format string, args ...any) // receives what the test waits for; may be nil
	NodePorts int                              // on how many nodes, at most, the Service's NodePort is asked as well
	Taints    time.Duration                    // how long to wait until ready nodes lose the taint not-ready or unreachable; 0 means 1 minute
}

// SmokeResult is the outcome of the smoke test.
type SmokeResult struct {
	Backends  []string      // nodes that the echo servers ran on
	Client    string        // node from which the Service was asked
	CrossNode bool          // the client's node runs no backend
	ClusterIP time.Duration // from the start of the test until the Service answered at its address
	DNS       time.Duration // and at its name
	NodePorts []NodePort    // and at a port of nodes
	Answers   []string      // the servers' answers, if the client's log could be read
}

// NodePort is a node at whose port the test sent requests to the Service.
type NodePort struct {
	Node     string
	Answered time.Duration // from the start of the test
}

// Smoke proves that the cluster works: a client, on another node if there is one, sends requests to a Service of echo servers on up to two
// nodes, by the Service's address, by its DNS name and, with o.NodePorts, by a port of nodes. It leaves only a terminating namespace behind,
// and first waits until that of an earlier test is gone. fail.NotReady names what did not succeed in time.
func (c *Client) Smoke(ctx context.Context, o SmokeOptions) (SmokeResult, error) {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Taints <= 0 {
		o.Taints = time.Minute
	}
	if o.DNSDomain == "" {
		o.DNSDomain = "cluster.local"
	}
	if o.Status == nil {
		o.Status = func(string, ...any) {}
	}
	wctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	result, err := c.smoke(wctx, o)
	if cleanup := c.smokeCleanup(ctx); err == nil {
		err = cleanup
	}
	return result, err
}

func (c *Client) smoke(ctx context.Context, o SmokeOptions) (SmokeResult, error) {
	start := time.Now()
	nodes, err := c.untainted(ctx, o)
	if err != nil {
		return SmokeResult{}, err
	}
	var r SmokeResult
	if r.Backends, r.Client, err = smokePlacement(nodes); err != nil {
		return r, err
	}
	r.CrossNode = !slices.Contains(r.Backends, r.Client)
	o.Status("waiting until the namespace %s of an earlier test is deleted", SmokeNamespace)
	if err := c.waitNamespaceGone(ctx, SmokeNamespace); err != nil {
		return r, err
	}
	o.Status("starting echo servers on %s", strings.Join(r.Backends, ", "))
	if _, err := c.Apply(ctx, []byte(smokeManifests(o.Image, r.Backends, o.NodePorts > 0)), ApplyOptions{}); err != nil {
		return r, err
	}
	svc, err := c.set.CoreV1().Services(SmokeNamespace).Get(ctx, "echo", metav1.GetOptions{})
	if err != nil {
		return r, apiError(ctx, err, "get the Service of the smoke test").At(c.server)
	}
	urls := map[string]string{
		byAddress: "http://" + bracketed(svc.Spec.ClusterIP) + "/",
		byName:    fmt.Sprintf("http://echo.%s.svc.%s/", SmokeNamespace, o.DNSDomain),
	}
	for _, n := range nodes {
		if n.Ready && len(n.Addresses) > 0 && len(r.NodePorts) < o.NodePorts {
			r.NodePorts = append(r.NodePorts, NodePort{Node: n.Name})
			urls[byNodePort(len(r.NodePorts))] = fmt.Sprintf("http://%s:%d/", bracketed(n.Addresses[0]), svc.Spec.Ports[0].NodePort)
		}
	}
	if _, err := c.Apply(ctx, []byte(smokeClient(o.Image, r.Client, urls)), ApplyOptions{}); err != nil {
		return r, err
	}
	o.Status("sending requests to the Service from %s", r.Client)
	if err := c.smokeAnswers(ctx, start, &r); err != nil {
		return r, err
	}
	r.Answers = c.smokeLogs(ctx)
	return r, nil
}

// untainted lists the nodes after the controller manager has removed the taints that keep pods off from nodes that are ready: it does so a
// moment after kubelet reports that a node is back. fail.NotReady names the nodes that keep such a taint.
func (c *Client) untainted(ctx context.Context, o SmokeOptions) ([]NodeInfo, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var names, taints []string
	for _, n := range nodes {
		if i := slices.IndexFunc(n.Taints, keepsPodsOff); n.Ready && i >= 0 {
			names, taints = append(names, n.Name), append(taints, n.Taints[i].Key+" from "+n.Name)
		}
	}
	if len(names) == 0 {
		return nodes, nil
	}
	o.Status("waiting until the controller manager has removed the taint %s", strings.Join(taints, ", "))
	wctx, cancel := context.WithTimeout(ctx, o.Taints)
	defer cancel()
	err = c.waitNodes(wctx, func(node runtime.Object) string {
		if n, ok := node.(*corev1.Node); !ok || !nodeInfo(n).Ready {
			return "" // it was removed, or is no longer ready: do not choose it
		}
		return lacks(node, NodeReady, machine.Life{})
	}, nil, names...)
	if err != nil {
		var why *fail.Error
		if errors.As(err, &why) {
			_ = why.Do("look at kube-controller-manager on the control-plane machines")
		}
		return nil, fail.Wrap(fail.KindOf(err), err, "smoke test")
	}
	return c.Nodes(ctx)
}

// Names of the client's containers, one for each way to reach the Service.
const (
	byAddress = "by-address"
	byName    = "by-name"
)

func byNodePort(i int) string { return fmt.Sprintf("by-node-port-%d", i) }

// answered returns where to store the time at which the Service first answered a container of the client, and how that container reaches it.
func (r *SmokeResult) answered(container string) (at *time.Duration, how string) {
	switch container {
	case byAddress:
		return &r.ClusterIP, "its address"
	case byName:
		return &r.DNS, "its name"
	}
	for i := range r.NodePorts {
		if container == byNodePort(i+1) {
			return &r.NodePorts[i].Answered, "its port of node " + r.NodePorts[i].Node
		}
	}
	return new(time.Duration), container
}

// smokePlacement chooses nodes: up to two that take ordinary pods for the servers, and another for the client. A node for the
// client comes first: with two nodes in all there is one server.
func smokePlacement(nodes []NodeInfo) (backends []string, client string, err error) {
	var open, closed []string // closed: ready, but not for ordinary pods
	for _, n := range nodes {
		switch {
		case !n.Ready:
		case n.Unschedulable || slices.ContainsFunc(n.Taints, func(t Taint) bool { return !tolerated(t) }):
			closed = append(closed, n.Name)
		default:
			open = append(open, n.Name)
		}
	}
	switch {
	case len(open) == 0:
		return nil, "", fail.New(fail.NotReady, "smoke test: of %d nodes none is ready for ordinary pods%s", len(nodes), closedBy(nodes)).
			Do("wait for the workers, uncordon them, or let pods onto the control plane")
	case len(open) > 2:
		return open[:2], open[2], nil
	case len(closed) > 0:
		return open, closed[0], nil
	case len(open) == 2:
		return open[:1], open[1], nil
	}
	return open, open[0], nil
}

// closedBy names the ready nodes that take no ordinary pods, each with the reason; it returns "" if no node is like that.
func closedBy(nodes []NodeInfo) string {
	var out []string
	for _, n := range nodes {
		var why []string
		if n.Unschedulable {
			why = append(why, "cordoned")
		}
		for _, t := range n.Taints {
			if !tolerated(t) {
				why = append(why, t.Key)
			}
		}
		if n.Ready && len(why) > 0 {
			out = append(out, n.Name+" ("+strings.Join(why, ", ")+")")
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; kept off by taints: " + strings.Join(out, ", ")
}

// waitNamespaceGone waits until an earlier test's namespace is gone. It deletes a namespace that is not terminating yet.
func (c *Client) waitNamespaceGone(ctx context.Context, name string) error {
	ns, err := c.set.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return apiError(ctx, err, "get namespace %s", name).At(c.server)
	}
	if ns.DeletionTimestamp == nil {
		if err := c.smokeCleanup(ctx); err != nil {
			return err
		}
	}
	f := follower{field: "metadata.name=" + name,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().Namespaces().List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().Namespaces().Watch(ctx, o)
		},
	}
	err = follow(ctx, f, func(objects map[string]runtime.Object) (bool, error) { return objects[name] == nil, nil })
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "wait until namespace %s is gone", name).At(c.server)
	}
	return nil
}

// smokeCleanup deletes the test's namespace, even after ctx has ended.
func (c *Client) smokeCleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	err := c.set.CoreV1().Namespaces().Delete(ctx, SmokeNamespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // conflict: it is already being deleted
		return apiError(ctx, err, "delete namespace %s after the smoke test", SmokeNamespace).At(c.server)
	}
	return nil
}

// smokeAnswers watches the client pod until all its containers have succeeded.
func (c *Client) smokeAnswers(ctx context.Context, start time.Time, r *SmokeResult) error {
	f := follower{field: "metadata.name=client",
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().Pods(SmokeNamespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().Pods(SmokeNamespace).Watch(ctx, o)
		},
	}
	missing := "the client pod has not started"
	err := follow(ctx, f, func(pods map[string]runtime.Object) (bool, error) {
		p, ok := pods[manifest.Key(SmokeNamespace, "client")].(*corev1.Pod)
		if !ok {
			return false, nil
		}
		var done bool
		var err error
		missing, done, err = smokeProgress(p, time.Since(start), r)
		return done, err
	})
	if err == nil {
		return nil
	}
	why := c.troubles(ctx, SmokeNamespace, &metav1.LabelSelector{}) // all pods of the test
	return fail.Wrap(fail.KindOf(err), err, "smoke test: %s", strings.Join(append([]string{missing}, why...), "; ")).At(c.server).
		Do("look at the pods of kube-system: the network plugin, kube-proxy and CoreDNS")
}

// smokeProgress reads from the client pod which answers are missing and whether all are in. A client that gave up is an error: it has tried
// until its own deadline.
func smokeProgress(p *corev1.Pod, elapsed time.Duration, r *SmokeResult) (missing string, done bool, err error) {
	waiting := []string{}
	for _, s := range p.Status.ContainerStatuses {
		t := s.State.Terminated
		at, how := r.answered(s.Name)
		switch {
		case t == nil:
			waiting = append(waiting, how)
		case t.ExitCode != 0:
			return "", false, fail.New(fail.NotReady, "the Service did not answer by %s from node %s: %s", how, p.Spec.NodeName, strings.TrimSpace(t.Message))
		case *at == 0:
			*at = elapsed
		}
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return "the client pod on " + p.Spec.NodeName + " has not started", false, nil
	}
	slices.Sort(waiting)
	return "no answer yet by " + strings.Join(waiting, ", "), len(waiting) == 0, nil
}

// smokeLogs returns the servers' answers from the client's logs, as far as these can be read: that needs kubelet's serving certificate, which
// may be issued after the Service answers. The answers are for display only.
func (c *Client) smokeLogs(ctx context.Context) []string {
	var out []string
	for _, container := range []string{byAddress, byName} {
		raw, err := c.set.CoreV1().Pods(SmokeNamespace).GetLogs("client", &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
		if err == nil {
			out = append(out, container+": "+strings.TrimSpace(string(raw)))
		}
	}
	return out
}
