package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naupegos/naupegos/internal/kube/answer"
)

func isWebhook(u *unstructured.Unstructured) bool {
	return strings.HasPrefix(u.GetAPIVersion(), admissionv1.GroupName+"/") && slices.Contains(webhookKinds, u.GetKind())
}

var webhookKinds = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}

// webhooksOf returns the webhooks of a configuration. Mutating webhooks have all fields of validating ones.
func webhooksOf(u *unstructured.Unstructured) (out []admissionv1.ValidatingWebhook) {
	all, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, one := range all {
		var w admissionv1.ValidatingWebhook
		if raw, err := json.Marshal(one); err == nil && json.Unmarshal(raw, &w) == nil {
			out = append(out, w)
		}
	}
	return out
}

// vital lists resources that a cluster must be able to change to continue: machines join, leaders are elected, pods of kube-system are created.
var vital = []struct {
	group, resource string
	inNamespaces    bool
}{
	{"", "nodes", false}, {"certificates.k8s.io", "certificatesigningrequests", false},
	{"", "pods", true}, {"", "configmaps", true}, {"", "secrets", true}, {"", "serviceaccounts", true}, {"coordination.k8s.io", "leases", true},
}

// Locks names the webhooks among objects that would block the cluster while they do not answer, each with the requests that it would refuse. It
// leaves out webhooks that select objects by conditions or labels.
func Locks(all []*unstructured.Unstructured) (out []string) {
	for _, u := range all {
		if !isWebhook(u) {
			continue
		}
		for _, w := range webhooksOf(u) {
			if w.FailurePolicy != nil && *w.FailurePolicy != admissionv1.Fail || len(w.MatchConditions) > 0 || selects(w.ObjectSelector) {
				continue
			}
			system, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
			inSystem := w.NamespaceSelector == nil || err == nil && system.Matches(labels.Set{corev1.LabelMetadataName: metav1.NamespaceSystem})
			var refused []string
			for _, v := range vital {
				if (!v.inNamespaces || inSystem) && slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool { return judges(r, v.group, v.resource, v.inNamespaces) }) {
					refused = append(refused, v.resource)
				}
			}
			if len(refused) > 0 {
				out = append(out, fmt.Sprintf("webhook %s refuses changes of %s, also in %s, while it does not answer", w.Name, strings.Join(refused, ", "), metav1.NamespaceSystem))
			}
		}
	}
	return out
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

// judges reports whether a rule is about new or changed objects of a resource.
func judges(r admissionv1.RuleWithOperations, group, resource string, inNamespaces bool) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	scope := admissionv1.ClusterScope
	if inNamespaces {
		scope = admissionv1.NamespacedScope
	}
	return slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool {
		return o == admissionv1.Create || o == admissionv1.Update || o == admissionv1.OperationAll
	}) && has(r.APIGroups, group) && (has(r.Resources, resource) || slices.Contains(r.Resources, "*/*")) && (r.Scope == nil || *r.Scope == admissionv1.AllScopes || *r.Scope == scope)
}

// uncalled matches the API server's message about a webhook that did not answer.
var uncalled = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// gate unblocks a set that its own webhooks block.
type gate struct{ *Applier }

// unblocked carries out an operation for a set. If a webhook of the set itself refuses the operation because no backend answers, for example on the
// Deployment that would repair the backend, unblocked deletes the webhook's configuration, which the set recreates at the end of its apply. The API
// server may notice it late: its error says to try again.
func (c gate) unblocked(ctx context.Context, o Options, do func() error) error {
	err := do()
	for range tries {
		if err == nil || o.Addon == "" {
			return err
		}
		named := uncalled.FindStringSubmatch(err.Error())
		if named == nil {
			return err
		}
		went, wrong := c.removeWebhook(ctx, named[1], o.Addon)
		if wrong != nil || !went {
			return err
		}
		err = do()
	}
	return err
}

// removeWebhook deletes the configuration of a webhook if it belongs to the set and its Service has no endpoint that is ready.
func (c gate) removeWebhook(ctx context.Context, name, addon string) (bool, error) {
	for _, kind := range webhookKinds {
		r := ref{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
		ri, err := c.resource(ctx, r)
		if err != nil {
			return false, err
		}
		list, err := ri.List(ctx, metav1.ListOptions{LabelSelector: AddonLabel + "=" + addon})
		if err != nil {
			return false, answer.Error(ctx, err, "list the webhooks of %s", SetTitle(addon)).At(c.Host)
		}
		for i := range list.Items {
			for _, w := range webhooksOf(&list.Items[i]) {
				if w.Name != name || w.ClientConfig.Service == nil {
					continue
				}
				if answers, err := c.answers(ctx, w.ClientConfig.Service.Namespace, w.ClientConfig.Service.Name); err != nil || answers {
					return false, err
				}
				if err := ri.Delete(ctx, list.Items[i].GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return false, answer.Error(ctx, err, "delete %s %s", kind, list.Items[i].GetName()).At(c.Host)
				}
				return true, nil
			}
		}
	}
	return false, nil
}

// answers reports whether a Service has an endpoint that is ready.
func (c gate) answers(ctx context.Context, namespace, name string) (bool, error) {
	all, err := c.Set.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
	if err != nil {
		return false, answer.Error(ctx, err, "look for the endpoints of Service %s/%s", namespace, name).At(c.Host)
	}
	for _, s := range all.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true, nil
			}
		}
	}
	return false, nil
}
