package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/naupegos/naupegos/internal/release"
)

// Away is a node that is to be drained.
type Away struct {
	Node   string
	Beside int // nodes like it that do not exist yet, but will while it is drained
}

// Obstacles lists what would prevent draining nodes one after another and restarting system pods: pods that drain would refuse to evict or that
// budgets hold, pods for which no other node has room, webhooks without endpoints, custom resources in versions that are not served, and
// anything that refuses system pods. Each obstacle is one sentence.
func (c *Client) Obstacles(ctx context.Context, nodes []Away) ([]string, error) {
	all, err := c.listNodes(ctx)
	if err != nil {
		return nil, apiError(ctx, err, "list the nodes").At(c.server)
	}
	pods, err := c.listPods(ctx, "status.phase!=Succeeded,status.phase!=Failed")
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
		leaving := slices.DeleteFunc(list.Pods(), func(p corev1.Pod) bool { return p.Namespace == SmokeNamespace }) // of a smoke test that has just ended
		for _, p := range leaving {
			if held := holding(p, budgets.Items); len(held) > 0 {
				found = append(found, "drain of node "+node+" would wait: "+blocker(p, budgets.Items))
			}
		}
		found = append(found, homeless(away, leaving, all, pods)...)
	}
	for _, look := range []func(context.Context, []string) ([]string, error){c.unservedWebhooks, c.unservedDefinitions, c.refusedPods} {
		if found, err = look(ctx, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// homeless names the pods of a node for which the other nodes have no room. It assigns each pod's requests to the first node with enough room.
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

// withOthers adds the nodes that will exist beside the one being drained: each is a copy of that node with its DaemonSet pods.
func withOthers(away Away, nodes []corev1.Node, pods []corev1.Pod) ([]corev1.Node, []corev1.Pod) {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == away.Node })
	if i < 0 {
		return nodes, pods
	}
	nodes, have := slices.Clone(nodes), slices.Clone(pods)
	for n := range away.Beside {
		other := *nodes[i].DeepCopy()
		other.Name = fmt.Sprintf("%s+%d", away.Node, n+1) // not a valid node name
		other.Spec.Unschedulable = false
		other.Spec.Taints = slices.DeleteFunc(other.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }) // taints that reflect the node's state
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

// requests estimates what the scheduler counts for a pod: it ignores init containers and overhead.
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

// tolerates reports whether the taints of a node and a pod's node selector allow the pod on it.
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

// webhook holds the fields that validating and mutating webhooks have in common.
type webhook struct {
	name    string
	fails   *admissionv1.FailurePolicyType
	service *admissionv1.ServiceReference
	rules   []admissionv1.RuleWithOperations
	spaces  *metav1.LabelSelector
}

// unservedWebhooks adds the webhooks that would refuse new system pods because their Services have no ready endpoints.
func (c *Client) unservedWebhooks(ctx context.Context, found []string) ([]string, error) {
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

// unservedDefinitions adds custom resources that are stored in a version that is not served, and custom resources with several versions whose
// conversion webhook has no ready endpoints. Both block clients that read all objects, such as the garbage collector.
func (c *Client) unservedDefinitions(ctx context.Context, found []string) ([]string, error) {
	list, err := c.listDefinitions(ctx)
	if err != nil {
		return nil, apiError(ctx, err, "read the definitions of custom resources").At(c.server)
	}
	for _, d := range list {
		found = append(found, unservedVersions(&d)...)
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		service, byService, _ := unstructured.NestedMap(d.Object, "spec", "conversion", "webhook", "clientConfig", "service")
		if !byService || len(versions) < 2 {
			continue
		}
		namespace, _ := service["namespace"].(string)
		name, _ := service["name"].(string)
		n, err := c.ReadyEndpoints(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			found = append(found, fmt.Sprintf("%s can't be converted between their versions: the Service that does it, %s/%s, has no endpoint that is ready",
				d.GetName(), namespace, name))
		}
	}
	return found, nil
}

// uncalled matches the API server's message about a webhook that did not answer, and captures its name.
var uncalled = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// refusedPods adds the system pods that could not be created again because a policy or a webhook refuses them. It requests each from the API
// server as its controller would, as a dry run.
func (c *Client) refusedPods(ctx context.Context, found []string) ([]string, error) {
	owners, err := c.systemPods(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		err := c.set.CoreV1().RESTClient().Post().Resource("pods").Namespace(o.pod.Namespace).
			SetHeader("Impersonate-User", "system:serviceaccount:"+metav1.NamespaceSystem+":"+o.as).
			VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, scheme.ParameterCodec).Body(&o.pod).Do(ctx).Error()
		var status apierrors.APIStatus
		switch silent := uncalled.FindStringSubmatch(fmt.Sprint(err)); {
		case err == nil, apierrors.IsNotFound(err): // the namespace is being deleted
		case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"): // a webhook that does not support dry runs
		case silent != nil:
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "webhook "+silent[1]+" ") }) {
				found = append(found, fmt.Sprintf("webhook %s does not answer, and pods of %s are not made without it", silent[1], o.name))
			}
			return found, nil // every further request would wait for the same webhook
		case errors.As(err, &status) && slices.Contains(refusals, status.Status().Code):
			found = append(found, fmt.Sprintf("pods of %s would not be made again: %s", o.name, status.Status().Message))
		default:
			return nil, apiError(ctx, err, "ask whether pods of %s may be made", o.name).At(c.server)
		}
	}
	return found, nil
}

// refusals are the status codes with which an API server refuses an object: invalid, forbidden by a policy, or denied by a webhook, which
// may choose its code.
var refusals = []int32{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity}

// podOf is a system pod and its owner.
type podOf struct {
	name string // of the owner
	as   string // service account of the controller that creates the pod
	pod  corev1.Pod
}

// systemPods returns one pod for each DaemonSet and Deployment in the system's namespaces, made from its template.
func (c *Client) systemPods(ctx context.Context) (all []podOf, err error) {
	sets, err := c.set.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list DaemonSets").At(c.server)
	}
	deployments, err := c.set.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list Deployments").At(c.server)
	}
	add := func(kind, as string, o metav1.ObjectMeta, t corev1.PodTemplateSpec) {
		if !strings.HasPrefix(o.Namespace, "kube-") { // Kubernetes reserves this prefix for the system
			return
		}
		pod := corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		pod.Namespace, pod.GenerateName = o.Namespace, o.Name+"-"
		all = append(all, podOf{fmt.Sprintf("%s %s/%s", kind, o.Namespace, o.Name), as, pod})
	}
	for _, s := range sets.Items {
		add("DaemonSet", "daemon-set-controller", s.ObjectMeta, s.Spec.Template)
	}
	for _, d := range deployments.Items {
		add("Deployment", "replicaset-controller", d.ObjectMeta, d.Spec.Template)
	}
	return all, nil
}

// judges reports whether the API calls a webhook for a new pod in a namespace with these labels, and refuses the pod if the webhook is silent.
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

// DeprecatedUse lists the APIs that clients have requested since this API server started and that a minor release of Kubernetes no longer
// serves, according to the metric apiserver_requested_deprecated_apis.
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
