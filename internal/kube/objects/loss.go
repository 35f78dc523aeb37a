package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/kube/answer"
)

// Lost lists what a removal of objects destroys besides them: volumes, also those that the garbage collector deletes with their owners, and objects of other
// owners whose definitions are removed. Objects in before are gone by then.
func (c *Applier) Lost(ctx context.Context, going []Ref, before ...Ref) (volumes, definitions []string, err error) {
	x := newCollector(c)
	for _, r := range before {
		x.known[ref(r).identity()] = fate{goes: true}
	}
	for _, r := range going {
		x.known[ref(r).identity()] = fate{goes: true, ours: true}
	}
	for _, r := range going {
		switch r.Kind {
		case "PersistentVolumeClaim", "PersistentVolume":
			volumes = append(volumes, ref(r).String())
		case "CustomResourceDefinition":
			others, err := c.othersOf(ctx, ref(r), x.known)
			if err != nil {
				return nil, nil, err
			}
			if len(others) > 0 {
				definitions = append(definitions, fmt.Sprintf("%s with %d objects of other owners", ref(r), len(others)))
			}
			for _, o := range others { // their volumes go, too
				x.known[o.identity()] = fate{goes: true, ours: true}
			}
		}
	}
	more, err := x.volumes(ctx)
	return append(volumes, more...), definitions, err
}

// othersOf lists the objects of a definition that the removal does not include.
func (c *Applier) othersOf(ctx context.Context, r ref, gone map[string]fate) ([]ref, error) {
	m, err := ends{c}.defined(ctx, r)
	if err != nil || m == nil {
		return nil, err
	}
	list, err := ends{c}.objectsOf(ctx, m)
	if err != nil {
		return nil, err
	}
	var out []ref
	for i := range list {
		if r := refTo(m, &list[i]); !gone[r.identity()].goes {
			out = append(out, r)
		}
	}
	return out, nil
}

// collector predicts the garbage collector, which deletes objects whose owners are all gone.
type collector struct {
	c     *Applier
	known map[string]fate // by identity
	asked map[types.UID]fate
}

// fate is the future of an object.
type fate struct {
	goes bool
	ours bool // because of the planned removal
}

func newCollector(c *Applier) *collector {
	return &collector{c: c, known: map[string]fate{}, asked: map[types.UID]fate{}}
}

// volumes lists the claims that are deleted with their owners and are not known otherwise.
func (x *collector) volumes(ctx context.Context) ([]string, error) {
	if len(x.known) == 0 {
		return nil, nil
	}
	claims, err := x.c.Set.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, answer.Error(ctx, err, "list volume claims").At(x.c.Host)
	}
	var out []string
	for i := range claims.Items {
		o := &claims.Items[i]
		r := ref{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: o.Namespace, Name: o.Name}
		if x.known[r.identity()].goes {
			continue
		}
		f, err := x.owned(ctx, o.Namespace, o.OwnerReferences)
		if err != nil {
			return nil, err
		}
		if f.ours {
			out = append(out, fmt.Sprintf("%s of %s %s", r, o.OwnerReferences[0].Kind, o.OwnerReferences[0].Name))
		}
	}
	return out, nil
}

// owned returns the fate of an object with these owners.
func (x *collector) owned(ctx context.Context, namespace string, owners []metav1.OwnerReference) (fate, error) {
	f := fate{goes: len(owners) > 0}
	for _, o := range owners {
		of, err := x.owner(ctx, namespace, o)
		if err != nil {
			return fate{}, err
		}
		f = fate{goes: f.goes && of.goes, ours: f.ours || of.ours}
	}
	return fate{goes: f.goes, ours: f.ours && f.goes}, nil
}

func (x *collector) owner(ctx context.Context, namespace string, o metav1.OwnerReference) (fate, error) {
	m, err := x.c.Mapping(ctx, o.APIVersion, o.Kind)
	if meta.IsNoMatchError(err) {
		return fate{}, nil // the garbage collector does not know it either
	}
	if err != nil {
		return fate{}, err
	}
	r := ref{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: namespace, Name: o.Name}
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		r.Namespace = ""
	}
	if f, ok := x.known[r.identity()]; ok {
		return f, nil
	}
	if f, ok := x.asked[o.UID]; ok {
		return f, nil
	}
	x.asked[o.UID] = fate{} // owners that own each other stay
	live, err := x.c.Meta.Resource(m.Resource).Namespace(r.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	var f fate
	switch {
	case apierrors.IsNotFound(err):
		f.goes = true
	case err != nil:
		return fate{}, answer.Error(ctx, err, "get %s", r).At(x.c.Host)
	case live.UID != o.UID, live.DeletionTimestamp != nil:
		f.goes = true
	default:
		if f, err = x.owned(ctx, r.Namespace, live.OwnerReferences); err != nil {
			return fate{}, err
		}
	}
	x.asked[o.UID] = f
	return f, nil
}
