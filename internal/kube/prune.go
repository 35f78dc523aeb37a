package kube

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Delete removes the objects of the manifests and, with an addon, all other objects in its inventory, and the inventory last.
// An object that does not exist is no error. Objects are deleted in the reverse order of Apply; Delete does not wait for their finalizers.
func (c *Client) Delete(ctx context.Context, manifests []byte, o ApplyOptions) error {
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return err
	}
	inv, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return err
	}
	all := union(inv.Objects, refs(objects))
	slices.SortStableFunc(all, func(a, b ref) int { return manifest.Rank(b.object()) - manifest.Rank(a.object()) })
	for _, r := range all {
		if err := c.deleteOne(ctx, r); err != nil {
			return err
		}
	}
	return c.forget(ctx, o.Addon)
}

func (c *Client) deleteOne(ctx context.Context, r ref) error {
	ri, err := c.resource(ctx, r)
	if err != nil {
		if meta.IsNoMatchError(err) { // its kind is gone, and all objects with it
			return nil
		}
		return err
	}
	background := metav1.DeletePropagationBackground
	err = ri.Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return apiError(ctx, err, "delete %s", r).At(c.server)
	}
	return nil
}

// prune deletes the objects that are in before but not in keep and still carry the label of this addon.
func (c *Client) prune(ctx context.Context, before, keep []ref, addon string) ([]string, error) {
	var out []string
	kept := map[string]bool{}
	for _, r := range keep {
		kept[r.identity()] = true
	}
	for _, r := range before {
		if kept[r.identity()] {
			continue
		}
		ours, err := c.belongs(ctx, r, addon)
		if err != nil {
			return out, err
		}
		if !ours {
			continue
		}
		if err := c.deleteOne(ctx, r); err != nil {
			return out, err
		}
		out = append(out, r.String())
	}
	return out, nil
}

func (c *Client) belongs(ctx context.Context, r ref, addon string) (bool, error) {
	ri, err := c.resource(ctx, r)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return false, err
	}
	u, err := ri.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, apiError(ctx, err, "get %s", r).At(c.server)
	}
	return u.GetLabels()[AddonLabel] == addon, nil
}
