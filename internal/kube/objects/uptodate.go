package objects

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// waitEstablished waits until the API serves a custom resource definition. This takes seconds; the limit is a minute.
func (c *Applier) waitEstablished(ctx context.Context, u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return err
	}
	return answer.Poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		got, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return answer.Error(ctx, err, "get %s", manifest.Name(u))
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
	return u.GetDeletionTimestamp() == nil && slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Established" && m["status"] == "True"
	})
}

// UpToDate reports whether the cluster holds the objects of the manifests as last applied: every object exists and carries the digest of the wanted
// content. It costs one request per kind (with an addon) or per object. Of an addon it also notices fields that others changed since; it takes some for changed that
// are not, such as one that was changed and put back: Examine compares them.
func (c *Applier) UpToDate(ctx context.Context, manifests []byte, o Options) (bool, error) {
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
