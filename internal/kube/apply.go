package kube

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Metadata of applied objects. Objects without an addon have no AddonLabel.
const (
	AddonLabel       = "naupegos.dev/addon"  // the addon that the object belongs to
	DigestAnnotation = "naupegos.dev/digest" // digest of the object as it was last applied
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Addon string // labels every object with this name and keeps an inventory under it; empty: no label and no inventory
	Prune bool   // removes objects that an earlier Apply of the same addon made and that the manifests no longer contain
}

// ApplyResult lists the applied and the removed objects.
type ApplyResult struct {
	Applied []string // "Deployment kube-system/coredns", in order
	Pruned  []string
}

// parallel bounds how many objects of one rank are applied at once.
const parallel = 8

// Apply applies the objects of the manifests (server-side apply, taking over fields that others set) in an order that works: namespaces,
// definitions (waiting until they are served), rights, configuration, services, workloads, webhooks. After an error some objects may be
// applied; another Apply finishes the work.
func (c *Client) Apply(ctx context.Context, manifests []byte, o ApplyOptions) (ApplyResult, error) {
	var result ApplyResult
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return result, err
	}
	digest, err := manifest.DigestAll(objects)
	if err != nil {
		return result, err
	}
	before, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return result, err
	}
	// Recorded before anything is created, so that the next Apply knows the objects of an interrupted one.
	if err := c.record(ctx, o.Addon, "", union(before.Objects, refs(objects))); err != nil {
		return result, err
	}
	for len(objects) > 0 {
		n := sameRank(objects)
		if err := c.applyRank(ctx, objects[:n], o.Addon); err != nil {
			return result, err
		}
		for _, u := range objects[:n] {
			result.Applied = append(result.Applied, manifest.Name(u))
		}
		objects = objects[n:]
	}
	if objects, err = manifest.Parse(manifests); err != nil {
		return result, err
	}
	keep := refs(objects)
	if o.Prune {
		if result.Pruned, err = c.prune(ctx, before.Objects, keep, o.Addon); err != nil {
			return result, err
		}
	} else {
		keep = union(before.Objects, keep)
	}
	return result, c.record(ctx, o.Addon, digest, keep)
}

func sameRank(objects []*unstructured.Unstructured) int {
	n := 1
	for n < len(objects) && manifest.Rank(objects[n]) == manifest.Rank(objects[0]) {
		n++
	}
	return n
}

func (c *Client) applyRank(ctx context.Context, objects []*unstructured.Unstructured, addon string) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, u := range objects {
		g.Go(func() error { return c.applyOne(gctx, u.DeepCopy(), addon) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, u := range objects {
		if u.GetKind() == "CustomResourceDefinition" {
			if err := c.waitEstablished(ctx, u); err != nil {
				return err
			}
			c.mapper.Reset()
		}
	}
	return nil
}

func (c *Client) applyOne(ctx context.Context, u *unstructured.Unstructured, addon string) error {
	digest, err := manifest.Digest(u)
	if err != nil {
		return err
	}
	u.SetAnnotations(with(u.GetAnnotations(), DigestAnnotation, digest))
	if addon != "" {
		u.SetLabels(with(u.GetLabels(), AddonLabel, addon))
	}
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return err
	}
	_, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if replaceable[u.GetKind()] && immutable(err) {
		if err := r.Delete(ctx, u.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return apiError(ctx, err, "replace %s", manifest.Name(u)).At(c.server)
		}
		_, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if err != nil {
		e := apiError(ctx, err, "apply %s", manifest.Name(u)).At(c.server)
		switch {
		case missingNamespace(err):
			e.Kind = fail.NotReady // kube-system appears shortly after the API; other namespaces come with their own manifests
		case strings.Contains(err.Error(), "failed to create typed patch object"):
			e.Kind = fail.Invalid // a field of the wrong type, which the API server reports as an internal error
		}
		return e
	}
	return nil
}

// replaceable are kinds whose objects can be deleted and made again when a field that never changes has to: volumes don't need the class that they were made
// by, and a binding has no state.
var replaceable = map[string]bool{"StorageClass": true, "ClusterRoleBinding": true, "RoleBinding": true}

func with(m map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// resource returns the client for objects of a reference's kind, in the reference's namespace if the kind is namespaced.
func (c *Client) resource(ctx context.Context, r ref) (dynamic.ResourceInterface, error) {
	m, err := c.mapping(ctx, r)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.dynamic.Resource(m.Resource), nil
	}
	return c.dynamic.Resource(m.Resource).Namespace(r.namespace()), nil
}

// mapping looks up a kind in the API's discovery. For an unknown kind, which may be new, it refreshes the mapper once.
func (c *Client) mapping(ctx context.Context, r ref) (*meta.RESTMapping, error) {
	gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, apiError(ctx, err, "find the kind %s of %s", r.Kind, r.APIVersion).At(c.server)
	}
	return m, nil
}

// waitEstablished waits until the API serves a custom resource definition. This takes seconds; the limit is a minute.
func (c *Client) waitEstablished(ctx context.Context, u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return err
	}
	return poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		got, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return apiError(ctx, err, "get %s", manifest.Name(u))
		}
		if !established(got) {
			return fail.New(fail.NotReady, "%s is not established", manifest.Name(u))
		}
		return nil
	})
}

func established(u *unstructured.Unstructured) bool {
	status, _ := u.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any) // null at first
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Established" && m["status"] == "True"
	})
}

// UpToDate reports whether the cluster holds the objects of the manifests as last applied: every object exists and carries the digest of the wanted
// content. It costs one request per kind (with an addon) or per object. It does not notice fields that others changed since; Apply corrects them.
func (c *Client) UpToDate(ctx context.Context, manifests []byte, o ApplyOptions) (bool, error) {
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return false, err
	}
	if o.Addon != "" {
		inv, err := c.inventory(ctx, o.Addon)
		if err != nil {
			return false, err
		}
		digest, err := manifest.DigestAll(objects)
		if err != nil || inv.Digest != digest || (o.Prune && len(inv.Objects) != len(refs(objects))) {
			return false, err
		}
	}
	kinds := map[schema.GroupVersionKind][]*unstructured.Unstructured{}
	for _, u := range objects {
		kinds[u.GroupVersionKind()] = append(kinds[u.GroupVersionKind()], u)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	same := make([]bool, len(kinds))
	for i, gvk := range slices.Collect(maps.Keys(kinds)) {
		g.Go(func() (err error) {
			same[i], err = c.sameKind(gctx, kinds[gvk], o.Addon)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	return !slices.Contains(same, false), nil
}
