package objects

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// ending returns the kinds that end with a removal, because it includes their definitions: the kinds in namespaces first.
func (c *Applier) ending(ctx context.Context, going []ref, o Options) ([]meta.RESTMapping, error) {
	var out []meta.RESTMapping
	for _, r := range going {
		if r.Kind != "CustomResourceDefinition" {
			continue
		}
		if o.Shared {
			if live, err := c.owned(ctx, r, o.Addon); err != nil {
				return nil, err
			} else if live == nil || stays(live) || o.Heirs[r.identity()] != "" {
				continue
			}
		}
		m, err := c.defined(ctx, r)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, *m)
		}
	}
	slices.SortStableFunc(out, func(a, b meta.RESTMapping) int { return wide(a) - wide(b) })
	return out, nil
}

// wide returns 1 for a kind whose objects are in no namespace: objects in namespaces refer to them.
func wide(m meta.RESTMapping) int {
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return 1
	}
	return 0
}

// defined returns the kind of a definition in the cluster; nil if the API does not serve it.
func (c *Applier) defined(ctx context.Context, r ref) (*meta.RESTMapping, error) {
	ri, err := c.held(ctx, r)
	if err != nil {
		return nil, err
	}
	d, err := ri.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, answer.Error(ctx, err, "get %s", r).At(c.Host)
	}
	gk, _ := manifest.Defines(d)
	m, err := c.Mapper.RESTMapping(gk)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, answer.Error(ctx, err, "find the kind %s", gk.Kind).At(c.Host)
	}
	return m, nil
}

// empty deletes all objects of kinds, whoever made them, and waits until they are gone. The API would delete them with their definitions; but then their
// controllers, which remove their finalizers, are gone as well.
func (c *Applier) empty(ctx context.Context, kinds []meta.RESTMapping) error {
	for _, scope := range []int{0, 1} {
		var leaving []leavingObject
		for _, m := range kinds {
			if wide(m) != scope {
				continue
			}
			list, err := c.allOf(ctx, m)
			if err != nil {
				return err
			}
			background := metav1.DeletePropagationBackground
			for i := range list {
				o := leavingObject{m, refTo(m, &list[i]), list[i].UID}
				err := c.Meta.Resource(m.Resource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background})
				if apierrors.IsNotFound(err) {
					continue
				}
				if err != nil {
					return answer.Error(ctx, err, "delete %s", o.ref).At(c.Host)
				}
				leaving = append(leaving, o)
			}
		}
		if err := c.waitLeft(ctx, leaving); err != nil {
			return err
		}
	}
	return nil
}

// leavingObject is a deleted object of a kind that ends.
type leavingObject struct {
	kind meta.RESTMapping
	ref
	uid types.UID
}

// waitLeft waits until deleted objects are gone. Controllers may make new ones in the meantime, which go with their definitions. The error names the first
// object that is left, and counts the others.
func (c *Applier) waitLeft(ctx context.Context, all []leavingObject) error {
	return answer.Poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		for len(all) > 0 {
			o := all[0]
			live, err := c.Meta.Resource(o.kind.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return answer.Error(ctx, err, "get %s", o.ref).At(c.Host)
			}
			if err == nil && live.UID == o.uid {
				return c.left(o.ref, live.Finalizers, len(all)-1)
			}
			all = all[1:]
		}
		return nil
	})
}

func (c *Applier) left(r ref, finalizers []string, others int) error {
	err := c.notGone(r, finalizers)
	if others > 0 {
		return fail.Wrap(fail.NotReady, err, "up to %d more objects are left", others)
	}
	return err
}

func refTo(m meta.RESTMapping, o *metav1.PartialObjectMetadata) ref {
	return ref{APIVersion: m.GroupVersionKind.GroupVersion().String(), Kind: m.GroupVersionKind.Kind, Namespace: o.Namespace, Name: o.Name}
}

// allOf lists the objects of a kind.
func (c *Applier) allOf(ctx context.Context, m meta.RESTMapping) ([]metav1.PartialObjectMetadata, error) {
	list, err := c.Meta.Resource(m.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, answer.Error(ctx, err, "list %s", m.Resource.Resource).At(c.Host)
	}
	return list.Items, nil
}
