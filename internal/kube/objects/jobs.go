package objects

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Vanishes reports whether the cluster deletes an object by itself when it has ended: a Job with a time to live.
func Vanishes(u *unstructured.Unstructured) bool {
	_, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished")
	return ok && isJob(u)
}

func isJob(u *unstructured.Unstructured) bool {
	return u.GetKind() == "Job" && u.GroupVersionKind().Group == "batch"
}

// vanishing returns the digests of the Jobs that vanish, by identity.
func vanishing(all []*unstructured.Unstructured) (map[string]string, error) {
	out := map[string]string{}
	for _, u := range all {
		if Vanishes(u) {
			digest, err := manifest.Digest(u)
			if err != nil {
				return nil, err
			}
			out[refOf(u).identity()] = digest
		}
	}
	return out, nil
}

// ran reports whether the set applied this very Job before. If it no longer exists, it has ended.
func (inv inventory) ran(u *unstructured.Unstructured) bool {
	if !Vanishes(u) {
		return false
	}
	digest, err := manifest.Digest(u)
	return err == nil && inv.Jobs[refOf(u).identity()] == digest
}

// unended leaves out the Jobs that ran before and are gone.
func (c *Applier) unended(ctx context.Context, all []*unstructured.Unstructured, before inventory) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, u := range all {
		if before.ran(u) {
			r, err := c.resource(ctx, refOf(u))
			if err != nil {
				return nil, err
			}
			_, err = r.Get(ctx, u.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, answer.Error(ctx, err, "get %s", manifest.Name(u)).At(c.Host)
			}
		}
		out = append(out, u)
	}
	return out, nil
}
