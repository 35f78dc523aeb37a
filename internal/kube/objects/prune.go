package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Delete removes the objects of the manifests and, with an addon, all other objects in its inventory, and the inventory last. An object that does not
// exist is not an error. Objects are deleted in the reverse order of Apply. Before it deletes what may be their operators, Delete waits until custom
// resources are gone, as long as ctx allows: the set's own, and all objects of its definitions.
func (c *Applier) Delete(ctx context.Context, manifests []byte, o Options) error {
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return err
	}
	inv, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return err
	}
	going := union(inv.Objects, refs(objects))
	_, err = c.takeAway(ctx, going, o, func(r ref) (bool, error) {
		if o.Shared {
			return c.deleteShared(ctx, r, o, going)
		}
		return true, c.deleteOne(ctx, r)
	})
	if err != nil {
		return err
	}
	return c.forget(ctx, o.Addon)
}

// takeAway removes objects in the reverse order of their creation, and returns the objects that remove deleted. Finalizers of custom resources need their operators,
// rights and definitions: these go after the custom resources are gone.
func (c *Applier) takeAway(ctx context.Context, all []ref, o Options, remove func(ref) (deleted bool, err error)) ([]string, error) {
	kinds, err := (ends{c}).ending(ctx, all, o)
	if err != nil {
		return nil, err
	}
	var out []string
	var leaving []ref
	slices.SortStableFunc(all, func(a, b ref) int { return manifest.Rank(b.object()) - manifest.Rank(a.object()) })
	last := manifest.Rank(&unstructured.Unstructured{}) // the rank of custom resources
	for _, r := range all {
		if manifest.Rank(r.object()) < last && len(leaving)+len(kinds) > 0 {
			if err := c.waitGone(ctx, leaving); err != nil {
				return out, err
			}
			if err := (ends{c}).clear(ctx, kinds); err != nil {
				return out, err
			}
			leaving, kinds = nil, nil
		}
		deleted, err := remove(r)
		if err != nil {
			return out, err
		}
		if deleted {
			out = append(out, r.String())
			if manifest.Rank(r.object()) == last && custom(r) {
				leaving = append(leaving, r)
			}
		}
	}
	return out, nil
}

// custom reports whether an object is of a kind that Kubernetes does not bring.
func custom(r ref) bool {
	return !scheme.Scheme.IsGroupRegistered(r.object().GroupVersionKind().Group)
}

// waitGone waits until deleted objects are gone. The error names the first that is not, and its finalizers.
func (c *Applier) waitGone(ctx context.Context, all []ref) error {
	return answer.Poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		for _, r := range all {
			ri, err := c.held(ctx, r)
			if meta.IsNoMatchError(err) {
				continue
			}
			if err != nil {
				return err
			}
			live, err := ri.Get(ctx, r.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return answer.Error(ctx, err, "get %s", r).At(c.Host)
			}
			return notGone(c.Host, r, live.GetFinalizers())
		}
		return nil
	})
}

func notGone(host string, r ref, finalizers []string) *fail.Error {
	return because(fail.New(fail.NotReady, "%s is deleted but not gone", r).At(host), finalizers)
}

// because adds the finalizers to an error about an object that is being deleted.
func because(e *fail.Error, finalizers []string) *fail.Error {
	if len(finalizers) == 0 {
		return e
	}
	e.What += ": it has the finalizer " + strings.Join(finalizers, ", ")
	return e.Do("look why the controller of the finalizer does not finish, then apply again")
}

func isNamespace(r ref) bool { return r.Kind == "Namespace" && r.APIVersion == "v1" }

// deleteShared deletes an object of a set. It keeps an object that now belongs to another set or moves to one, one that must stay, and a namespace
// with objects that are not being removed.
func (c *Applier) deleteShared(ctx context.Context, r ref, o Options, going []ref) (deleted bool, err error) {
	live, err := c.owned(ctx, r, o.Addon)
	if err != nil || live == nil {
		return false, err
	}
	if stays(live) || o.Heirs[r.identity()] != "" {
		return false, c.release(ctx, r, o.Addon)
	}
	if isNamespace(r) {
		if other, err := c.occupied(ctx, r.Name, o.Addon, going, false); err != nil || other != "" {
			if err == nil {
				err = c.release(ctx, r, o.Addon)
			}
			return false, err
		}
	}
	return true, c.deleteOne(ctx, r)
}

// stays reports whether an object is to outlive its set: Helm's charts mark it, or the cluster needs it.
func stays(live *unstructured.Unstructured) bool {
	return strings.EqualFold(strings.TrimSpace(live.GetAnnotations()["helm.sh/resource-policy"]), "keep") || essential(live)
}

// release takes the label of its set from an object that stays, unless another set has it by now.
func (c *Applier) release(ctx context.Context, r ref, addon string) error {
	return answer.Poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		live, err := c.owned(ctx, r, addon)
		if err != nil || live == nil {
			return err
		}
		ri, err := c.held(ctx, r)
		if err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{%q:null},"annotations":{%q:null,%q:null}}}`, live.GetResourceVersion(), AddonLabel, DigestAnnotation, contentAnnotation)
		_, err = ri.Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err): // it has changed since: look again
			return fail.Wrap(fail.NotReady, err, "release %s", r).At(c.Host)
		}
		return answer.Error(ctx, err, "release %s", r).At(c.Host)
	})
}

func (c *Applier) deleteOne(ctx context.Context, r ref) error {
	return c.delete(ctx, r, metav1.DeletePropagationBackground)
}

func (c *Applier) delete(ctx context.Context, r ref, how metav1.DeletionPropagation) error {
	ri, err := c.held(ctx, r)
	if err != nil {
		if meta.IsNoMatchError(err) { // its kind is gone, and all objects with it
			return nil
		}
		return err
	}
	err = ri.Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: &how})
	if err != nil && !apierrors.IsNotFound(err) {
		return answer.Error(ctx, err, "delete %s", r).At(c.Host)
	}
	return nil
}

// prune deletes the objects that are in before but not in keep and still carry the label of this addon.
func (c *Applier) prune(ctx context.Context, before, keep []ref, o Options) ([]string, error) {
	kept := map[string]bool{}
	for _, r := range keep {
		kept[r.identity()] = true
	}
	going := slices.DeleteFunc(slices.Clone(before), func(r ref) bool { return kept[r.identity()] })
	shared := Options{Addon: o.Addon, Shared: true, Heirs: o.Heirs}
	return c.takeAway(ctx, going, shared, func(r ref) (bool, error) { return c.deleteShared(ctx, r, shared, going) })
}

// owned returns the live object if it belongs to the set; nil if it does not, or does not exist.
func (c *Applier) owned(ctx context.Context, r ref, addon string) (*unstructured.Unstructured, error) {
	ri, err := c.held(ctx, r)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, err
	}
	u, err := ri.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, answer.Error(ctx, err, "get %s", r).At(c.Host)
	}
	if u.GetLabels()[AddonLabel] != addon {
		return nil, nil
	}
	return u, nil
}

// Departing lists the objects that a removal of the set deletes and those that stay, and reports whether the set was applied a single time.
func (c *Applier) Departing(ctx context.Context, addon string) (going, staying []Ref, once bool, err error) {
	inv, err := c.inventory(ctx, addon)
	if err != nil {
		return nil, nil, false, err
	}
	for _, r := range inv.Objects {
		live, err := c.owned(ctx, r, addon)
		switch {
		case err != nil:
			return nil, nil, false, err
		case live == nil:
		case inv.Once || stays(live):
			staying = append(staying, Ref(r))
		default:
			going = append(going, Ref(r))
		}
	}
	return going, staying, inv.Once, nil
}
