package kube

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naupegos/naupegos/internal/release"
)

// Away is a node that is to be drained.
type Away struct {
	Node   string
	Beside int // nodes like it that are not there yet, and will be while it is drained
}

// Obstacles says what would hold up that nodes are drained one after another and that system pods start again: pods that drain would not
// touch or that budgets hold, pods for which no other node has room, and webhooks that nobody serves. One sentence each.
func (c *Client) Obstacles(ctx context.Context, nodes []Away) ([]string, error) {
	all, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list the nodes").At(c.server)
	}
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"})
	if err != nil {
		return nil, apiError(ctx, err, "list the pods").At(c.server)
	}
	budgets, err := c.set.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list the disruption budgets").At(c.server)
	}
	var found []string
	for _, away := range nodes {
		node := away.Node
		h := c.drainer(ctx, DrainOptions{DeleteEmptyDir: true})
		list, errs := h.GetPodsForDeletion(node)
		for _, err := range errs {
			found = append(found, "drain of node "+node+" would be refused: "+err.Error())
		}
		if list == nil || len(errs) > 0 {
			continue
		}
		for _, p := range list.Pods() {
			if held := holding(p, budgets.Items); len(held) > 0 {
				found = append(found, "drain of node "+node+" would wait: "+blocker(p, budgets.Items))
			}
		}
		found = append(found, homeless(away, list.Pods(), all.Items, pods.Items)...)
	}
	unserved, err := c.unservedWebhooks(ctx)
	return append(found, unserved...), err
}

// homeless says which pods of a node have no room on the others: each takes what it requests of the first node that has it.
func homeless(away Away, leaving []corev1.Pod, nodes []corev1.Node, pods []corev1.Pod) (found []string) {
	node, free := away.Node, map[string]corev1.ResourceList{}
	nodes, pods = withOthers(away, nodes, pods)
	var order []string
	for i := range nodes {
		n := &nodes[i]
		if n.Name != node && !n.Spec.Unschedulable {
			order = append(order, n.Name)
			free[n.Name] = n.Status.Allocatable.DeepCopy()
		}
	}
	for i := range pods {
		take(free[pods[i].Spec.NodeName], requests(&pods[i]))
	}
	for i := range leaving {
		p := &leaving[i]
		want := requests(p)
		at := slices.IndexFunc(order, func(name string) bool { return fits(want, free[name]) && tolerates(p, nodes, name) })
		if at < 0 {
			found = append(found, fmt.Sprintf("pod %s/%s has no room on another node while %s is drained: it requests %s of processors and %s of memory",
				p.Namespace, p.Name, node, want.Cpu(), want.Memory()))
			continue
		}
		take(free[order[at]], want)
	}
	return found
}

// withOthers adds the nodes that will be there beside one that is drained: each like it, with the pods that every node has.
func withOthers(away Away, nodes []corev1.Node, pods []corev1.Pod) ([]corev1.Node, []corev1.Pod) {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == away.Node })
	if i < 0 {
		return nodes, pods
	}
	nodes, have := slices.Clone(nodes), slices.Clone(pods)
	for n := range away.Beside {
		other := *nodes[i].DeepCopy()
		other.Name = fmt.Sprintf("%s+%d", away.Node, n+1) // no node's name
		other.Spec.Unschedulable = false
		other.Spec.Taints = slices.DeleteFunc(other.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }) // of its state
		delete(other.Labels, corev1.LabelHostname)
		nodes = append(nodes, other)
		for _, p := range have {
			if owner := metav1.GetControllerOf(&p); p.Spec.NodeName == away.Node && owner != nil && owner.Kind == "DaemonSet" {
				p.Spec.NodeName = other.Name
				pods = append(pods, p)
			}
		}
	}
	return nodes, pods
}

// requests is what the scheduler counts for a pod, but for its init containers and overhead: an estimate.
func requests(p *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

func fits(want, free corev1.ResourceList) bool {
	for name, q := range want {
		if have, known := free[name]; known && have.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

func take(free, want corev1.ResourceList) {
	for name, q := range want {
		if have, known := free[name]; known {
			have.Sub(q)
			free[name] = have
		}
	}
}

// tolerates reports whether a pod may run on a node by the node's taints and its own selector.
func tolerates(p *corev1.Pod, nodes []corev1.Node, name string) bool {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	for _, t := range nodes[i].Spec.Taints {
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
			return (o.Key == "" || o.Key == t.Key) && (o.Effect == "" || o.Effect == t.Effect) && (o.Operator == corev1.TolerationOpExists || o.Value == t.Value)
		})
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
			return false
		}
	}
	return labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(nodes[i].Labels))
}

// webhook is what validating and mutating ones have in common.
type webhook struct {
	name    string
	fails   *admissionv1.FailurePolicyType
	service *admissionv1.ServiceReference
	rules   []admissionv1.RuleWithOperations
	spaces  *metav1.LabelSelector
}

// unservedWebhooks says which webhooks would refuse that system pods are made, because nothing answers behind their Services.
func (c *Client) unservedWebhooks(ctx context.Context) (found []string, err error) {
	validating, err := c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list the webhooks").At(c.server)
	}
	mutating, err := c.set.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list the webhooks").At(c.server)
	}
	system, err := c.set.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "look at namespace %s", metav1.NamespaceSystem).At(c.server)
	}
	var hooks []webhook
	for _, w := range validating.Items {
		for _, h := range w.Webhooks {
			hooks = append(hooks, webhook{h.Name, h.FailurePolicy, h.ClientConfig.Service, h.Rules, h.NamespaceSelector})
		}
	}
	for _, w := range mutating.Items {
		for _, h := range w.Webhooks {
			hooks = append(hooks, webhook{h.Name, h.FailurePolicy, h.ClientConfig.Service, h.Rules, h.NamespaceSelector})
		}
	}
	for _, h := range hooks {
		if h.service == nil || !h.judges(system.Labels) {
			continue
		}
		n, err := c.ReadyEndpoints(ctx, h.service.Namespace, h.service.Name)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			found = append(found, fmt.Sprintf("webhook %s would refuse every new pod of %s: its Service %s/%s has no endpoint that is ready",
				h.name, metav1.NamespaceSystem, h.service.Namespace, h.service.Name))
		}
	}
	return found, nil
}

// judges reports whether a webhook is asked when a pod is made in a namespace with these labels, and its silence refuses the pod.
func (h webhook) judges(namespace map[string]string) bool {
	spaces, err := metav1.LabelSelectorAsSelector(h.spaces)
	if h.fails != nil && *h.fails != admissionv1.Fail || err != nil || h.spaces != nil && !spaces.Matches(labels.Set(namespace)) {
		return false
	}
	has := func(list []string, want string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, want)
	}
	return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
		creates := slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, admissionv1.Create)
		return creates && has(r.APIGroups, "") && has(r.Resources, "pods")
	})
}

// DeprecatedUse lists the APIs that clients have asked this API server for since it started and that a minor of Kubernetes does not serve any
// more, by its metric apiserver_requested_deprecated_apis.
func (c *Client) DeprecatedUse(ctx context.Context, minor string) ([]string, error) {
	const metric = "apiserver_requested_deprecated_apis"
	text, err := c.set.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, apiError(ctx, err, "ask the API server which APIs are used").At(c.server)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, apiError(ctx, err, "read which APIs are used").At(c.server)
	}
	var used []string
	for _, m := range families[metric].GetMetric() {
		label := map[string]string{}
		for _, l := range m.GetLabel() {
			label[l.GetName()] = l.GetValue()
		}
		if gone := label["removed_release"]; gone == "" || release.Compare("v"+gone+".0", "v"+minor+".0") > 0 {
			continue
		}
		used = append(used, fmt.Sprintf("%s of %s is still asked for, and Kubernetes %s does not serve it any more",
			label["resource"], strings.TrimPrefix(label["group"]+"/"+label["version"], "/"), label["removed_release"]))
	}
	slices.Sort(used)
	return used, nil
}
