package objects

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Place puts objects without a namespace into the set's, takes the namespace from objects of kinds that have none, and adds the set's namespace to
// the set unless it exists and belongs neither to the set nor to the sets that it follows. It returns copies, in order.
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

// occupied names an object of a namespace that outlives the objects removed with the set; "" if there is none. It leaves out objects that Kubernetes
// puts into each namespace, and objects whose owners are removed. foreseen means that the definitions among them will be gone by then, with their
// objects.
func (c *Applier) occupied(ctx context.Context, namespace, addon string, going []ref, foreseen bool) (string, error) {
	inv, err := c.inventory(ctx, addon)
	if err != nil {
		return "", err
	}
	x, kept := newCollector(c), map[string]bool{}
	for _, r := range inv.Objects {
		kept[r.identity()] = true
	}
	for _, r := range going {
		x.known[r.identity()], kept[r.identity()] = fate{goes: true, ours: true}, false
	}
	kinds, err := c.occupants(ctx, x.known, foreseen)
	if err != nil {
		return "", err
	}
	found := make([][]metav1.PartialObjectMetadata, len(kinds))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, k := range kinds {
		g.Go(func() error {
			list, err := c.Meta.Resource(k.gv.WithResource(k.Name)).Namespace(namespace).List(gctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) { // another set's removal has just deleted its definition
				return nil
			}
			if err != nil {
				return answer.Error(ctx, err, "list %s of namespace %s", k.Name, namespace).At(c.Host)
			}
			found[i] = list.Items
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	for i, k := range kinds {
		for j := range found[i] {
			o := &found[i][j]
			id := ref{APIVersion: k.gv.String(), Kind: k.Kind, Namespace: namespace, Name: o.Name}.identity()
			stays, err := x.outlives(ctx, o, k.Kind)
			if err != nil {
				return "", err
			}
			hook := k.Kind != "PersistentVolumeClaim" && appliedFor(o, addon) // inventories do not list the objects of a chart's hooks
			if stays && (kept[id] || !hook) {
				return k.Kind + " " + o.Name, nil
			}
		}
	}
	return "", nil
}

// occupant is a kind of objects that can be in a namespace.
type occupant struct {
	metav1.APIResource
	gv schema.GroupVersion
}

// occupants lists the kinds whose objects could keep a namespace in use.
func (c *Applier) occupants(ctx context.Context, known map[string]fate, foreseen bool) (kinds []occupant, err error) {
	lists, err := c.Set.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, answer.Error(ctx, err, "ask which resources the API serves").At(c.Host)
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read which resources the API serves")
		}
		for _, r := range l.APIResources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || strings.Contains(r.Name, "/") ||
				slices.Contains([]string{"events", "endpoints", "endpointslices", "leases"}, r.Name) || gv.Group == "metrics.k8s.io" {
				continue
			}
			gone, err := c.undefined(ctx, definition(r.Name+"."+gv.Group), known, foreseen)
			if err != nil {
				return nil, err
			}
			if !gone {
				kinds = append(kinds, occupant{r, gv})
			}
		}
	}
	return kinds, nil
}

// Occupied lists the namespaces that stay after a removal of an addon's objects, each with an object of others: "Namespace shop has Secret owner".
func (c *Applier) Occupied(ctx context.Context, going []Ref, addon string) ([]string, error) {
	var all []ref
	for _, r := range going {
		all = append(all, ref(r))
	}
	var out []string
	for _, r := range all {
		if !isNamespace(r) {
			continue
		}
		other, err := c.occupied(ctx, r.Name, addon, all, true)
		if err != nil {
			return nil, err
		}
		if other != "" {
			out = append(out, fmt.Sprintf("%s has %s", r, other))
		}
	}
	return out, nil
}

// undefined reports whether a definition is among the removed objects and is deleted, or being deleted, in the cluster: its objects are deleted with it. If this is foreseen, the cluster
// still has it.
func (c *Applier) undefined(ctx context.Context, r ref, known map[string]fate, foreseen bool) (bool, error) {
	if goes := known[r.identity()].goes; !goes || foreseen {
		return goes, nil
	}
	ri, err := c.resource(ctx, r)
	if err != nil {
		return false, err
	}
	d, err := ri.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, answer.Error(ctx, err, "get %s", r).At(c.Host)
	}
	return d.GetDeletionTimestamp() != nil, nil
}

// outlives reports whether an object stays after the removed objects are deleted. Namespaces are deleted last: an object of the set that is not being deleted
// by then was kept, or another set has taken it over.
func (x *collector) outlives(ctx context.Context, o *metav1.PartialObjectMetadata, kind string) (bool, error) {
	ofNamespace := kind == "ServiceAccount" && o.Name == "default" || kind == "ConfigMap" && o.Name == "kube-root-ca.crt"
	if ofNamespace || o.DeletionTimestamp != nil {
		return false, nil
	}
	f, err := x.owned(ctx, o.Namespace, o.OwnerReferences)
	return !f.goes, err
}

// appliedFor reports whether we gave an object the label of a set. Operators copy labels to their objects.
func appliedFor(o *metav1.PartialObjectMetadata, addon string) bool {
	return o.Labels[AddonLabel] == addon && slices.ContainsFunc(o.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == FieldManager && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+AddonLabel+`"`))
	})
}
