package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// The annotations by which Helm marks the objects of its releases.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// applyShared applies one object that others may change, too.
func (c *Applier) applyShared(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured, o Options) error {
	live, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return err
	}
	if live != nil {
		if owner, err := c.owner(ctx, live, o); err == nil && owner == "" { // applyTo refuses it otherwise
			if live, err = c.inherit(ctx, r, live); err != nil {
				return err
			}
			if err := c.keepReplicas(ctx, r, u, live); err != nil {
				return err
			}
		}
	}
	_, _, err = c.applyTo(ctx, r, u, live, o, metav1.ApplyOptions{FieldManager: FieldManager})
	return err
}

// applyTo applies an object, with the marks of its set, over the live one, which may be nil. fail.Conflict names the owner of the object or of its fields. left are
// the fields that it leaves to other programs: see laterOf.
func (c *Applier) applyTo(ctx context.Context, r dynamic.ResourceInterface, u, live *unstructured.Unstructured, o Options, with metav1.ApplyOptions) (out *unstructured.Unstructured, left []rival, err error) {
	if live != nil {
		owner, err := c.owner(ctx, live, o)
		if err != nil {
			return nil, nil, err
		}
		if owner != "" {
			return nil, nil, fail.New(fail.Conflict, "belongs to %s", owner).At(manifest.Name(u)).Do("give it another name, or remove it there first")
		}
		if err := leaving(live); err != nil {
			return nil, nil, err
		}
		if err := storedVersions(u, live); err != nil {
			return nil, nil, err
		}
	}
	if n, yes := scaled(u, live); yes && len(with.DryRun) > 0 {
		u = u.DeepCopy()
		if err := unstructured.SetNestedField(u.Object, n, "spec", "replicas"); err != nil {
			return nil, nil, err
		}
	}
	with.Force = o.Force
	out, err = fitting(ctx, r, u, live, with)
	if !apierrors.IsConflict(err) || o.Force {
		return out, nil, err
	}
	theirs, all := conflicts(err, live, o)
	if !all {
		return nil, nil, err
	}
	if later := laterOf(theirs, u, live); len(later) > 0 && len(later) == len(theirs) {
		if rest, ok := without(u, later); ok {
			left, u = later, rest
			out, err = fitting(ctx, r, u, live, with)
			if !apierrors.IsConflict(err) {
				return out, left, err
			}
			if theirs, all = conflicts(err, live, o); !all {
				return nil, nil, err
			}
		}
	}
	if len(theirs) > 0 {
		return nil, nil, fail.New(fail.Conflict, "has fields that others manage: %s", list(theirs)).At(manifest.Name(u)).
			Do("leave these fields out, or set force: true to take them over")
	}
	with.Force = true // the other managers are people
	out, err = fitting(ctx, r, u, live, with)
	return out, left, err
}

// laterOf returns the fields that programs changed after the last change of the set, that is, if the live object was made from this very object, or
// from one that differs in metadata alone, as after the upgrade of a chart. An autoscaler's number of replicas is always later: it would come back.
func laterOf(fields []rival, u, live *unstructured.Unstructured) (out []rival) {
	if live == nil {
		return nil
	}
	same := func(annotation string) bool {
		digest := u.GetAnnotations()[annotation]
		return digest != "" && live.GetAnnotations()[annotation] == digest
	}
	for _, r := range fields {
		scaled := r.field == ".spec.replicas" && slices.ContainsFunc(live.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == r.manager && m.Subresource == "scale"
		})
		if same(DigestAnnotation) || scaled || same(contentAnnotation) && !strings.HasPrefix(r.field, ".metadata.") {
			out = append(out, r)
		}
	}
	return out
}

// leaving returns fail.NotReady if an object is being deleted: a change would be lost with it.
func leaving(live *unstructured.Unstructured) error {
	if live.GetDeletionTimestamp() == nil {
		return nil
	}
	return because(fail.New(fail.NotReady, "%s is being deleted: it is made again when it is gone", manifest.Name(live)), live.GetFinalizers())
}

// reason returns the words of a conflict.
func reason(err error) string {
	var e *fail.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	var inner *fail.Error
	said := ""
	switch {
	case e.Err != nil && errors.As(e.Err, &inner):
		e = inner
	case apierrors.IsConflict(e.Err):
		said = ": " + e.Err.Error()
	case e.Err != nil:
		said = ": " + told(e.Err)
	}
	if e.Hint != "" {
		return e.What + said + " (" + e.Hint + ")"
	}
	return e.What + said
}

// ownerOf is owner by the object's marks alone.
func ownerOf(live *unstructured.Unstructured, o Options) string {
	if addon := live.GetLabels()[AddonLabel]; addon != "" {
		if addon == o.Addon || slices.Contains(o.From, addon) || o.Moved[refOf(live).identity()] == addon {
			return ""
		}
		return SetTitle(addon)
	}
	a := live.GetAnnotations()
	if name := a[helmRelease]; name != "" && a[helmNamespace]+"/"+name != o.Helm {
		return "Helm release " + a[helmNamespace] + "/" + name
	}
	if essential(live) || live.GetLabels()["kubernetes.io/cluster-service"] == "true" {
		return "Kubernetes itself"
	}
	return otherTool(live)
}

// kubeadmObjects are the objects that kubeadm creates in kube-system, whatever their kinds.
var kubeadmObjects = []string{"coredns", "kube-dns", "kube-proxy", "kubeadm-config", "kubelet-config", "extension-apiserver-authentication", "kube-root-ca.crt"}

// essential reports whether the cluster does not work without an object.
func essential(live *unstructured.Unstructured) bool {
	name := live.GetName()
	if live.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults" || strings.HasPrefix(name, "kubeadm:") {
		return true
	}
	switch live.GetKind() {
	case "Namespace":
		return slices.Contains(systemNamespaces, name)
	case "PriorityClass":
		return strings.HasPrefix(name, "system-")
	case "ClusterRole", "ClusterRoleBinding":
		return name == "system:coredns"
	case "Service":
		if live.GetNamespace() == metav1.NamespaceDefault && name == "kubernetes" {
			return true
		}
	}
	return live.GetNamespace() == metav1.NamespaceSystem && slices.Contains(kubeadmObjects, name) || live.GetNamespace() == metav1.NamespacePublic && name == "cluster-info"
}

// otherTool names the controller or the tool for deployments that owns an object; "" if there is none.
func otherTool(live *unstructured.Unstructured) string {
	for _, o := range live.GetOwnerReferences() {
		if o.Controller != nil && *o.Controller {
			return o.Kind + " " + o.Name
		}
	}
	l, a := live.GetLabels(), live.GetAnnotations()
	if name := l["kustomize.toolkit.fluxcd.io/name"]; name != "" {
		return "the Kustomization " + manifest.Key(l["kustomize.toolkit.fluxcd.io/namespace"], name) + " of Flux"
	}
	if name := l["helm.toolkit.fluxcd.io/name"]; name != "" {
		return "the HelmRelease " + manifest.Key(l["helm.toolkit.fluxcd.io/namespace"], name) + " of Flux"
	}
	if id := a["argocd.argoproj.io/tracking-id"]; id != "" {
		name, _, _ := strings.Cut(id, ":")
		return "the application " + name + " of Argo CD"
	}
	if name := l["argocd.argoproj.io/instance"]; name != "" {
		return "the application " + name + " of Argo CD"
	}
	return ""
}

// Prefixes of the inventories of the document's sets. Inventories without them belong to addons.
const (
	ManifestsPrefix = "manifests."
	ChartPrefix     = "charts."
)

// SetTitle names an inventory for people.
func SetTitle(inventory string) string {
	if name, ok := strings.CutPrefix(inventory, ManifestsPrefix); ok {
		return "manifests " + name
	}
	if name, ok := strings.CutPrefix(inventory, ChartPrefix); ok {
		return "chart " + name
	}
	return "addon " + inventory
}

// manager matches the manager in the message of a conflict.
var manager = regexp.MustCompile(`conflict with "([^"]+)"`)

// rival is a field that a program other than us manages.
type rival struct{ field, manager string }

// String renders a field for messages: "spec.replicas (kube-controller-manager)".
func (r rival) String() string { return strings.TrimPrefix(r.field, ".") + " (" + r.manager + ")" }

func list(all []rival) string {
	var out []string
	for _, r := range all {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

// conflicts lists the fields of a conflict that belong to programs. all reports whether the error names every field.
func conflicts(err error, live *unstructured.Unstructured, o Options) (fields []rival, all bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, false
	}
	for _, cause := range status.Status().Details.Causes {
		m := manager.FindStringSubmatch(cause.Message)
		if cause.Type != metav1.CauseTypeFieldManagerConflict || m == nil {
			return nil, false
		}
		if !person(m[1], o) && (o.Helm == "" || live == nil || !slices.Contains(helms(live), m[1])) {
			fields = append(fields, rival{cause.Field, m[1]})
		}
	}
	return fields, len(status.Status().Details.Causes) > 0
}

// people are managers of fields that people changed: by k9s, Lens (node-fetch), or a page that hands on the browser's name; and former states of ours.
var people = []string{"k9s", "node-fetch", "Mozilla", keeper, converter, "before-first-apply"}

// person reports whether a field manager stands for a person's edit, or for the Helm release that the set takes over.
func person(name string, o Options) bool {
	return strings.HasPrefix(name, "kubectl") || slices.Contains(people, name) || o.Helm != "" && strings.EqualFold(name, "helm")
}

// helms names the managers that marked an object as one of a Helm release: Helm writes as the program that it is part of, such as a provider of Terraform.
func helms(live *unstructured.Unstructured) []string {
	var out []string
	for _, m := range live.GetManagedFields() {
		if m.Subresource == "" && m.Manager != FieldManager && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+helmRelease+`"`)) {
			out = append(out, m.Manager)
		}
	}
	return out
}

// inherit transfers fields that kubectl or Helm set to the set, so that a field that leaves the set leaves the object. It returns the live object.
func (c *Applier) inherit(ctx context.Context, r dynamic.ResourceInterface, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := inheritance(live)
	if err != nil {
		return nil, fmt.Errorf("take over the fields of %s: %w", manifest.Name(live), err)
	}
	if len(patch) == 0 {
		return live, nil
	}
	return r.Patch(ctx, live.GetName(), "application/json-patch+json", patch, metav1.PatchOptions{FieldManager: FieldManager})
}

// inheritance is the patch of inherit; empty if there is nothing to take over. Helm 3 and kubectl apply update; Helm 4 and kubectl apply --server-side apply.
func inheritance(live *unstructured.Unstructured) ([]byte, error) {
	updating, applying := sets.New("kubectl-client-side-apply", "helm", "Helm", "before-first-apply"), sets.New("kubectl", "helm", "Helm")
	updating.Insert(helms(live)...)
	applying.Insert(helms(live)...)
	fields, found := live.GetManagedFields(), sets.New[string]()
	for i, m := range fields {
		switch {
		case m.Subresource != "":
		case m.Operation == metav1.ManagedFieldsOperationUpdate && updating.Has(m.Manager):
			found.Insert(m.Manager)
		case m.Operation == metav1.ManagedFieldsOperationApply && applying.Has(m.Manager):
			fields[i].Manager, fields[i].Operation = "before-"+m.Manager, metav1.ManagedFieldsOperationUpdate // the upgrade handles only updates
			found.Insert(fields[i].Manager)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	live = live.DeepCopy()
	live.SetManagedFields(fields)
	return csaupgrade.UpgradeManagedFieldsPatch(live, found, FieldManager)
}

// HelmRelease returns the name of the Secret, or of the ConfigMap, with the newest revision of a Helm release, unless it was uninstalled; "" if there is none.
func (c *Applier) HelmRelease(ctx context.Context, namespace, name string) (string, error) {
	o := metav1.ListOptions{LabelSelector: "owner=helm,name=" + name}
	secrets, err := c.Set.CoreV1().Secrets(namespace).List(ctx, o)
	if err != nil {
		return "", answer.Error(ctx, err, "look for the Helm release %s/%s", namespace, name).At(c.Host)
	}
	configs, err := c.Set.CoreV1().ConfigMaps(namespace).List(ctx, o)
	if err != nil {
		return "", answer.Error(ctx, err, "look for the Helm release %s/%s", namespace, name).At(c.Host)
	}
	newest, last := "", -1
	note := func(m metav1.ObjectMeta) {
		n, err := strconv.Atoi(m.Labels["version"])
		if err != nil || n <= last {
			return
		}
		if newest, last = m.Name, n; m.Labels["status"] == "uninstalled" || m.Labels["status"] == "uninstalling" {
			newest = "" // helm uninstall --keep-history
		}
	}
	for i := range secrets.Items {
		if string(secrets.Items[i].Type) == "helm.sh/release.v1" {
			note(secrets.Items[i].ObjectMeta)
		}
	}
	for i := range configs.Items {
		note(configs.Items[i].ObjectMeta)
	}
	return newest, nil
}

// Applied finds whether the set was applied completely before, and in which mode, whatever it contains now. It replaces the comparison for a set that
// is applied once.
func (c *Applier) Applied(ctx context.Context, o Options) (Finding, error) {
	inv, err := c.inventory(ctx, o.Addon)
	done := inv.Digest != ""
	return Finding{Same: done, Known: done, Mode: done && inv.Once != o.Once}, err
}

// Remember writes the mode of the options into the inventory, and changes no object.
func (c *Applier) Remember(ctx context.Context, o Options) error {
	inv, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return err
	}
	return c.record(ctx, o, inv)
}

// Forget removes the inventory of a set and leaves its objects, which belong to no set then.
func (c *Applier) Forget(ctx context.Context, addon string) error {
	inv, err := c.inventory(ctx, addon)
	if err != nil {
		return err
	}
	for _, r := range inv.Objects {
		live, err := c.owned(ctx, r, addon)
		if err == nil && live != nil {
			err = c.release(ctx, r, addon)
		}
		if err != nil {
			return err
		}
	}
	return c.forget(ctx, addon)
}

// forgotten reports whether a label names a set of a document that is no longer there. Such labels remain on objects of a chart's hooks.
func (c *Applier) forgotten(ctx context.Context, addon string) (bool, error) {
	if !strings.HasPrefix(addon, ManifestsPrefix) && !strings.HasPrefix(addon, ChartPrefix) {
		return false, nil
	}
	_, err := c.Set.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, inventoryName(addon), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, answer.Error(ctx, err, "look for the inventory of %s", SetTitle(addon)).At(c.Host)
	}
	return err != nil, nil
}

// owner names the set, addon or Helm release that a live object belongs to; "" if the set of the options may take it.
func (c *Applier) owner(ctx context.Context, live *unstructured.Unstructured, o Options) (string, error) {
	owner := ownerOf(live, o)
	label := live.GetLabels()[AddonLabel]
	if owner == "" || label == "" {
		return owner, nil
	}
	free, err := c.forgotten(ctx, label)
	if err != nil || !free {
		return owner, err
	}
	unlabelled := live.DeepCopy()
	labels := unlabelled.GetLabels()
	delete(labels, AddonLabel)
	unlabelled.SetLabels(labels)
	return ownerOf(unlabelled, o), nil
}

// namespaced reports whether a kind is namespaced; unknown if neither the API nor a definition among the objects says it.
func (c *Applier) namespaced(ctx context.Context, u *unstructured.Unstructured, among []*unstructured.Unstructured) (yes, known bool, err error) {
	m, err := c.Mapping(ctx, u.GetAPIVersion(), u.GetKind())
	if err == nil {
		return m.Scope.Name() == meta.RESTScopeNameNamespace, true, nil
	}
	if !meta.IsNoMatchError(err) {
		return false, false, err
	}
	gk := u.GroupVersionKind().GroupKind()
	for _, d := range among {
		if defined, ok := manifest.Defines(d); ok && defined == gk {
			scope, _, _ := unstructured.NestedString(d.Object, "spec", "scope")
			return scope == "Namespaced", true, nil
		}
	}
	return false, false, nil
}
