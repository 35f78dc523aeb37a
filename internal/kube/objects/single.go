package objects

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// ApplyHook applies one object of a set that its inventory does not record.
func (c *Applier) ApplyHook(ctx context.Context, u *unstructured.Unstructured, o Options) (Result, error) {
	if err := c.applyOne(ctx, u, o); err != nil {
		return Result{}, err
	}
	return Result{Applied: []string{manifest.Name(u)}}, nil
}

// Replace deletes an object, waits until it is gone, and makes it again.
func (c *Applier) Replace(ctx context.Context, u *unstructured.Unstructured) error {
	if err := c.delete(ctx, refOf(u), metav1.DeletePropagationForeground); err != nil { // its pods, too
		return err
	}
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return err
	}
	err = answer.Poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		_, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return answer.Error(ctx, err, "get %s", manifest.Name(u)).At(c.Host)
		}
		return fail.New(fail.NotReady, "the former %s is not gone yet", manifest.Name(u))
	})
	if err != nil {
		return err
	}
	if _, err = r.Create(ctx, u, metav1.CreateOptions{FieldManager: FieldManager}); err != nil {
		return answer.Error(ctx, err, "make %s", manifest.Name(u)).At(c.Host)
	}
	return nil
}

// Exists reports whether an object exists and is not being deleted.
func (c *Applier) Exists(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return false, err
	}
	live, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, answer.Error(ctx, err, "get %s", manifest.Name(u)).At(c.Host)
	}
	return live.GetDeletionTimestamp() == nil, nil
}

// Remove deletes an object and its dependents. An object that does not exist is not an error.
func (c *Applier) Remove(ctx context.Context, u *unstructured.Unstructured) error {
	return c.deleteOne(ctx, refOf(u))
}

// APIs lists the versions and kinds that the API serves, "apps/v1" and "apps/v1/Deployment".
func (c *Applier) APIs(ctx context.Context) ([]string, error) {
	_, lists, err := c.Set.Discovery().ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return nil, answer.Error(ctx, err, "ask which resources the API serves").At(c.Host)
	}
	var out []string
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) { // an API whose server is down will be back: charts keep their objects for it
		for gv := range failed.Groups {
			out = append(out, gv.String())
		}
		slices.Sort(out)
	}
	for _, l := range lists {
		out = append(out, l.GroupVersion)
		for _, r := range l.APIResources {
			out = append(out, l.GroupVersion+"/"+r.Kind)
		}
	}
	return out, nil
}
