package objects

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

// templates are the paths of the pods that workloads make.
var templates = map[string][]string{
	"Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "DaemonSet": {"spec", "template"}, "ReplicaSet": {"spec", "template"}, "Job": {"spec", "template"},
	"CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// Barred asks the API server by dry runs whether it would take the pods of the workloads among objects that an apply changes: a namespace's Pod Security, limits,
// quota or a webhook may refuse them, and only events of the workload would show that. It returns a line for each: "Deployment shop/web: violates PodSecurity …".
// Pods of namespaces that do not exist yet are not tried.
func (c *Applier) Barred(ctx context.Context, all []*unstructured.Unstructured, changes []delta.Delta) (out []string, err error) {
	changed := map[string]string{}
	for _, d := range changes {
		changed[d.Name] = d.Action
	}
	for _, u := range all {
		name := manifest.Name(u)
		p := podOf(u)
		if p == nil || changed[name] == "" {
			continue
		}
		_, err := c.Set.CoreV1().Pods(u.GetNamespace()).Create(ctx, p, metav1.CreateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsForbidden(err) && changed[name] != "create" && strings.Contains(err.Error(), "exceeded quota"): // its present pods count, too
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "looking up service account"): // of a namespace that was made a moment ago
		case apierrors.IsForbidden(err):
			if line := name + ": " + whyBarred(err); !slices.Contains(out, line) {
				out = append(out, line)
			}
		case ctx.Err() != nil:
			return nil, answer.Error(ctx, err, "try the pods of %s", name).At(c.Host)
		}
	}
	return out, nil
}

// podOf returns a pod of a workload, without what the set may bring itself: its account and classes. nil if the object makes none.
func podOf(u *unstructured.Unstructured) *corev1.Pod {
	path := templates[u.GetKind()]
	if group := u.GroupVersionKind().Group; path == nil || group != "apps" && group != "batch" {
		return nil
	}
	template, found, err := unstructured.NestedMap(u.Object, path...)
	if !found || err != nil {
		return nil
	}
	p := &corev1.Pod{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(template, p) != nil {
		return nil
	}
	p.TypeMeta, p.Namespace, p.Name, p.GenerateName = metav1.TypeMeta{}, u.GetNamespace(), "", u.GetName()+"-"
	p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount, p.Spec.PriorityClassName, p.Spec.RuntimeClassName, p.Spec.Overhead = "", "", "", nil, nil
	no := false
	p.Spec.AutomountServiceAccountToken = &no
	return p
}

// whyBarred returns the API's reason without the name of the dry-run pod.
func whyBarred(err error) string {
	if _, why, found := strings.Cut(err.Error(), "is forbidden: "); found {
		return why
	}
	return err.Error()
}
