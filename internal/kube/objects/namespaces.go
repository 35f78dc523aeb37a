package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// systemNamespaces belong to Kubernetes.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// Place puts objects without a namespace into the set's, takes the namespace from objects of kinds that have none, and adds the set's namespace to the set
// unless it is there already and neither the set's own nor that of the sets that it follows. It returns copies, in order.
func (c *Applier) Place(ctx context.Context, all []*unstructured.Unstructured, namespace, addon string, from ...string) ([]*unstructured.Unstructured, error) {
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	var out []*unstructured.Unstructured
	uses, holds := false, false
	for _, u := range all {
		u = u.DeepCopy()
		yes, known, err := c.namespaced(ctx, u, all)
		switch {
		case err != nil:
			return nil, err
		case known && !yes:
			u.SetNamespace("")
		case known && u.GetNamespace() == "":
			u.SetNamespace(namespace)
		}
		uses = uses || u.GetNamespace() == namespace
		holds = holds || u.GetKind() == "Namespace" && u.GetAPIVersion() == "v1" && u.GetName() == namespace
		out = append(out, u)
	}
	if uses && !holds && !slices.Contains(systemNamespaces, namespace) {
		ns, err := c.Set.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, answer.Error(ctx, err, "get Namespace %s", namespace).At(c.Host)
		}
		if err != nil || ns.Labels[AddonLabel] == addon || slices.Contains(from, ns.Labels[AddonLabel]) {
			out = append(out, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}})
		}
	}
	manifest.Sort(out)
	return out, nil
}

// occupied names an object of a namespace that does not belong to the set; "" if there is none. It leaves out objects that others own, objects that
// Kubernetes puts into each namespace, and objects of kinds that end with the set.
func (c *Applier) occupied(ctx context.Context, namespace, addon string, ending []meta.RESTMapping) (string, error) {
	lists, err := c.Set.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return "", answer.Error(ctx, err, "ask which resources the API serves").At(c.Host)
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return "", fail.Wrap(fail.Internal, err, "read which resources the API serves")
		}
		for _, r := range l.APIResources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || strings.Contains(r.Name, "/") ||
				slices.Contains([]string{"events", "endpoints", "endpointslices", "leases"}, r.Name) || gv.Group == "metrics.k8s.io" ||
				slices.ContainsFunc(ending, func(m meta.RESTMapping) bool {
					return m.Resource.GroupResource() == gv.WithResource(r.Name).GroupResource()
				}) {
				continue
			}
			found, err := c.Meta.Resource(gv.WithResource(r.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", answer.Error(ctx, err, "list %s of namespace %s", r.Name, namespace).At(c.Host)
			}
			for i := range found.Items {
				if o := &found.Items[i]; foreign(o, r.Kind, addon) {
					return r.Kind + " " + o.Name, nil
				}
			}
		}
	}
	return "", nil
}

func foreign(o *metav1.PartialObjectMetadata, kind, addon string) bool {
	ofNamespace := kind == "ServiceAccount" && o.Name == "default" || kind == "ConfigMap" && o.Name == "kube-root-ca.crt"
	return !ofNamespace && len(o.OwnerReferences) == 0 && o.DeletionTimestamp == nil && o.Labels[AddonLabel] != addon
}

// Lost lists what a removal of objects destroys besides them: volumes, and objects of other owners whose definitions are removed.
func (c *Applier) Lost(ctx context.Context, going []Ref) (volumes, definitions []string, err error) {
	gone := map[string]bool{}
	for _, r := range going {
		gone[ref(r).identity()] = true
	}
	for _, r := range going {
		switch r.Kind {
		case "PersistentVolumeClaim", "PersistentVolume":
			volumes = append(volumes, ref(r).String())
		case "CustomResourceDefinition":
			n, err := c.countOthers(ctx, ref(r), gone)
			if err != nil {
				return nil, nil, err
			}
			if n > 0 {
				definitions = append(definitions, fmt.Sprintf("%s with %d objects of other owners", ref(r), n))
			}
		}
	}
	return volumes, definitions, nil
}

// countOthers counts the objects of a definition that the removal does not include.
func (c *Applier) countOthers(ctx context.Context, r ref, gone map[string]bool) (int, error) {
	m, err := c.defined(ctx, r)
	if err != nil || m == nil {
		return 0, err
	}
	list, err := c.objectsOf(ctx, *m)
	n := 0
	for i := range list {
		if !gone[refTo(*m, &list[i]).identity()] {
			n++
		}
	}
	return n, err
}

// Occupied lists the namespaces that stay after a removal of a set's objects, each with an object of others: "Namespace shop has Secret owner".
func (c *Applier) Occupied(ctx context.Context, going []Ref, addon string) ([]string, error) {
	var all []ref
	for _, r := range going {
		all = append(all, ref(r))
	}
	kinds, err := c.ending(ctx, all, Options{Addon: addon})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range all {
		if !isNamespace(r) {
			continue
		}
		other, err := c.occupied(ctx, r.Name, addon, kinds)
		if err != nil {
			return nil, err
		}
		if other != "" {
			out = append(out, fmt.Sprintf("%s has %s", r, other))
		}
	}
	return out, nil
}
