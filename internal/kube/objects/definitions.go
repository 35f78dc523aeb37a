package objects

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

func definition(name string) ref {
	return ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name}
}

// ends removes the definitions of a set and all their objects.
type ends struct{ *Applier }

// ending returns the kinds that end with a removal, because it includes their definitions.
func (c ends) ending(ctx context.Context, going []ref, o Options) ([]*meta.RESTMapping, error) {
	var out []*meta.RESTMapping
	for _, r := range going {
		if r.Kind != "CustomResourceDefinition" {
			continue
		}
		if o.Shared {
			live, err := c.owned(ctx, r, o.Addon)
			if err != nil {
				return nil, err
			}
			if live == nil || stays(live) || o.Heirs[r.identity()] != "" {
				continue
			}
		}
		m, err := c.defined(ctx, r)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// defined returns the kind of a definition in the cluster; nil if the API does not serve it.
func (c ends) defined(ctx context.Context, r ref) (*meta.RESTMapping, error) {
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

// objectsOf lists the objects of a kind.
func (c ends) objectsOf(ctx context.Context, m *meta.RESTMapping) ([]metav1.PartialObjectMetadata, error) {
	list, err := c.Meta.Resource(m.Resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // its definition has just gone
		return nil, nil
	}
	if err != nil {
		return nil, answer.Error(ctx, err, "list %s", m.Resource.Resource).At(c.Host)
	}
	return list.Items, nil
}

func refTo(m *meta.RESTMapping, o *metav1.PartialObjectMetadata) ref {
	return ref{APIVersion: m.GroupVersionKind.GroupVersion().String(), Kind: m.GroupVersionKind.Kind, Namespace: o.Namespace, Name: o.Name}
}

// again bounds how often clear deletes objects of one name: a controller that makes its object each time would otherwise block the removal. Such an
// object is deleted with its definition.
const again = 3

// clear deletes all objects of kinds that end, of all owners, and waits until they are gone. The API would delete them with their definitions, but by then their
// controllers, which remove their finalizers, are gone as well. The error names the first object that is left, and counts the others.
func (c ends) clear(ctx context.Context, kinds []*meta.RESTMapping) error {
	if len(kinds) == 0 {
		return nil
	}
	deleted, times := map[types.UID]bool{}, map[string]int{}
	return answer.Poll(ctx, 300*time.Millisecond, func(ctx context.Context) error {
		for _, scope := range []meta.RESTScopeName{meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot} { // objects in namespaces refer to the others
			left, first := 0, error(nil)
			for _, m := range kinds {
				if m.Scope.Name() != scope {
					continue
				}
				list, err := c.objectsOf(ctx, m) // controllers make objects while others are deleted
				if err != nil {
					return err
				}
				for i := range list {
					o, r := &list[i], refTo(m, &list[i])
					if !deleted[o.UID] && times[r.identity()] == again {
						continue
					}
					if !deleted[o.UID] {
						if err := c.deleteExactly(ctx, m, o); err != nil {
							return err
						}
						deleted[o.UID] = true
						times[r.identity()]++
					}
					if left++; left == 1 {
						first = notGone(c.Host, r, o.Finalizers)
					}
				}
			}
			if left > 1 {
				return fail.Wrap(fail.NotReady, first, "up to %d more objects are left", left-1)
			}
			if left == 1 {
				return first
			}
		}
		return nil
	})
}

// deleteExactly deletes an object unless another one has its name by now.
func (c ends) deleteExactly(ctx context.Context, m *meta.RESTMapping, o *metav1.PartialObjectMetadata) error {
	background := metav1.DeletePropagationBackground
	err := c.Meta.Resource(m.Resource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &o.UID},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return answer.Error(ctx, err, "delete %s", refTo(m, o)).At(c.Host)
}
