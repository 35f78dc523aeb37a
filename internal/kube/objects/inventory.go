package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// ref names one object of the cluster.
type ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Ref names one object of the cluster.
type Ref ref

// Identity is the same for all versions of a group.
func (r Ref) Identity() string { return ref(r).identity() }

// RefOf returns the reference of an object.
func RefOf(u *unstructured.Unstructured) Ref { return Ref(refOf(u)) }

// String renders a reference for messages.
func (r Ref) String() string { return ref(r).String() }

// inventory lists the objects of an addon. It is stored in a ConfigMap of kube-system.
type inventory struct {
	Digest  string   // of the manifests applied last; empty while an apply is unfinished
	Last    string   // while one is unfinished: of the manifests that were applied completely before
	Doing   string   // while one is unfinished: of its manifests
	Hooks   string   // digest of the hooks as of the manifests applied last; empty: not recorded
	Unrun   []string // hooks of the set's removal, which are not run
	Objects []ref
	Once    bool              // the set is applied a single time
	Jobs    map[string]string // the digests of Jobs that the cluster deletes when they have ended, by identity, as applied last
}

// InventoryPrefix is the prefix of the names of the ConfigMaps that hold inventories.
const InventoryPrefix = "naupegos-addon-"

func inventoryName(addon string) string { return InventoryPrefix + addon }

func refOf(u *unstructured.Unstructured) ref {
	return ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

func refs(objects []*unstructured.Unstructured) []ref {
	out := make([]ref, 0, len(objects))
	for _, u := range objects {
		out = append(out, refOf(u))
	}
	return union(nil, out)
}

// namespace returns the namespace of an object of a namespaced kind: the default one if the reference has none.
func (r ref) namespace() string {
	if r.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return r.Namespace
}

// identity is the same for all versions of a group.
func (r ref) identity() string {
	u := r.object()
	return u.GroupVersionKind().GroupKind().String() + " " + manifest.Key(r.Namespace, r.Name)
}

func (r ref) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.Kind)
	return u
}

// String renders a reference for messages.
func (r ref) String() string { return r.Kind + " " + manifest.Key(r.Namespace, r.Name) }

// union returns the references of both lists. If both name the same object, it takes the reference of b.
func union(a, b []ref) []ref {
	var out []ref
	for _, list := range [][]ref{a, b} {
		for _, r := range list {
			if i := slices.IndexFunc(out, func(x ref) bool { return x.identity() == r.identity() }); i >= 0 {
				out[i] = r
			} else {
				out = append(out, r)
			}
		}
	}
	return out
}

func (c *Applier) inventory(ctx context.Context, addon string) (inventory, error) {
	var inv inventory
	if addon == "" {
		return inv, nil
	}
	cm, err := c.Set.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, inventoryName(addon), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return inv, nil
	}
	if err != nil {
		return inv, answer.Error(ctx, err, "get the inventory of addon %s", addon).At(c.Host)
	}
	inv.Digest, inv.Once = cm.Data["digest"], cm.Data["mode"] == "once"
	inv.Last, inv.Doing, inv.Hooks = cm.Data["last"], cm.Data["doing"], cm.Data["hooks"]
	inv.Unrun = slices.DeleteFunc(strings.Split(cm.Data["unrun"], "\n"), func(s string) bool { return s == "" })
	err = json.Unmarshal([]byte(cm.Data["objects"]), &inv.Objects)
	if jobs := cm.Data["jobs"]; jobs != "" && err == nil {
		err = json.Unmarshal([]byte(jobs), &inv.Jobs)
	}
	if err != nil {
		return inv, fail.Wrap(fail.Invalid, err, "read the inventory of addon %s in ConfigMap kube-system/%s", addon, cm.Name).
			Do("delete that ConfigMap and apply again; nothing will be pruned then")
	}
	return inv, nil
}

func (c *Applier) record(ctx context.Context, o Options, inv inventory) error {
	addon := o.Addon
	if addon == "" {
		return nil
	}
	raw, err := json.Marshal(inv.Objects)
	if err != nil {
		return fmt.Errorf("inventory of addon %s: %w", addon, err)
	}
	data := map[string]string{"digest": inv.Digest, "objects": string(raw)}
	for key, value := range map[string]string{"last": inv.Last, "doing": inv.Doing, "hooks": inv.Hooks, "unrun": strings.Join(inv.Unrun, "\n")} {
		if value != "" {
			data[key] = value
		}
	}
	if o.Once {
		data["mode"] = "once"
	}
	if len(inv.Jobs) > 0 {
		jobs, err := json.Marshal(inv.Jobs)
		if err != nil {
			return fmt.Errorf("inventory of addon %s: %w", addon, err)
		}
		data["jobs"] = string(jobs)
	}
	cm := corev1ac.ConfigMap(inventoryName(addon), metav1.NamespaceSystem).WithLabels(map[string]string{AddonLabel: addon}).WithData(data)
	_, err = c.Set.CoreV1().ConfigMaps(metav1.NamespaceSystem).Apply(ctx, cm, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		e := answer.Error(ctx, err, "write the inventory of addon %s", addon).At(c.Host)
		if answer.MissingNamespace(err) {
			e.Kind = fail.NotReady
		}
		return e
	}
	return nil
}

func (c *Applier) forget(ctx context.Context, addon string) error {
	if addon == "" {
		return nil
	}
	err := c.Set.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, inventoryName(addon), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return answer.Error(ctx, err, "delete the inventory of addon %s", addon).At(c.Host)
	}
	return nil
}

// Inventory lists the objects that a set made, or was about to make.
func (c *Applier) Inventory(ctx context.Context, addon string) ([]Ref, error) {
	inv, err := c.inventory(ctx, addon)
	var out []Ref
	for _, r := range inv.Objects {
		out = append(out, Ref(r))
	}
	return out, err
}

// Unrun lists the hooks of a set's removal, which are not run.
func (c *Applier) Unrun(ctx context.Context, addon string) ([]string, error) {
	inv, err := c.inventory(ctx, addon)
	return inv.Unrun, err
}

// Groups returns the API groups of the custom resources among objects, and the groups that definitions among them define.
func Groups(all []Ref) (uses, defines []string) {
	for _, r := range all {
		group := ref(r).object().GroupVersionKind().Group
		switch {
		case r.Kind == "CustomResourceDefinition":
			_, group, _ = strings.Cut(r.Name, ".")
			if !slices.Contains(defines, group) {
				defines = append(defines, group)
			}
		case custom(ref(r)) && group != "apiregistration.k8s.io" && !slices.Contains(uses, group):
			uses = append(uses, group)
		}
	}
	return uses, defines
}

// Works reports whether there are workloads among objects.
func Works(all []Ref) bool {
	return slices.ContainsFunc(all, func(r Ref) bool {
		return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "Pod"}, r.Kind)
	})
}

// Addons lists the addons that have an inventory, sorted.
func (c *Applier) Addons(ctx context.Context) ([]string, error) {
	list, err := c.Set.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: AddonLabel})
	if err != nil {
		return nil, answer.Error(ctx, err, "list addons").At(c.Host)
	}
	var out []string
	for _, cm := range list.Items {
		if addon := cm.Labels[AddonLabel]; cm.Name == inventoryName(addon) {
			out = append(out, addon)
		}
	}
	slices.Sort(out)
	return out, nil
}

// intact reports whether an object still has all fields as they were applied: another client that changes a field becomes its manager.
func intact(o *metav1.PartialObjectMetadata, wanted *unstructured.Unstructured) bool {
	for _, m := range o.ManagedFields {
		if m.Manager != FieldManager || m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		said := wanted.DeepCopy().Object
		for _, name := range []string{"apiVersion", "kind", "status"} {
			delete(said, name)
		}
		if meta, ok := said["metadata"].(map[string]any); ok {
			delete(meta, "name")
			delete(meta, "namespace")
			if len(meta) == 0 {
				delete(said, "metadata")
			}
		}
		return covers(fields, said)
	}
	return true
}

// sameKind reports whether all the given objects, which are of one kind, exist with their digests, and unedited if they belong to an addon.
func (c *Applier) sameKind(ctx context.Context, objects []*unstructured.Unstructured, addon string) (bool, error) {
	m, err := c.Mapping(ctx, objects[0].GetAPIVersion(), objects[0].GetKind())
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r := c.Meta.Resource(m.Resource)
	there := map[string]metav1.PartialObjectMetadata{}
	if addon != "" {
		list, err := r.Namespace(corev1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: AddonLabel + "=" + addon})
		if apierrors.IsNotFound(err) { // its definition has just gone
			return false, nil
		}
		if err != nil {
			return false, answer.Error(ctx, err, "list %s of addon %s", m.Resource.Resource, addon).At(c.Host)
		}
		for _, o := range list.Items {
			there[manifest.Key(o.Namespace, o.Name)] = o
		}
	}
	for _, u := range objects {
		want, err := manifest.Digest(u)
		if err != nil {
			return false, err
		}
		namespace := ""
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace = refOf(u).namespace()
		}
		have, known := there[manifest.Key(namespace, u.GetName())]
		if addon == "" {
			o, err := r.Namespace(namespace).Get(ctx, u.GetName(), metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return false, answer.Error(ctx, err, "get %s", manifest.Name(u)).At(c.Host)
			}
			if known = err == nil; known {
				have = *o
			}
		}
		if !known || have.Annotations[DigestAnnotation] != want || addon != "" && !intact(&have, u) {
			return false, nil
		}
	}
	return true, nil
}
