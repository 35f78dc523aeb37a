package objects

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/naupegos/naupegos/internal/fail"
)

// foreseeNew asks the API server by a dry run whether it accepts the fields of an object that does not exist yet, and fails with fail.Invalid if it
// does not. It ignores all other refusals, such as those about a namespace or a webhook, because they may change before the object is applied.
func (c *Applier) foreseeNew(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured, o Options) error {
	if !o.Shared { // our own objects are right
		return nil
	}
	_, err := r.Apply(ctx, u.GetName(), u.DeepCopy(), metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
	return refusal(err)
}

// refusal returns the API server's objection to an object's fields, with kind fail.Invalid, or nil if an error is about something else.
func refusal(err error) error {
	if apierrors.IsInvalid(err) {
		return fail.New(fail.Invalid, "%s", told(err))
	}
	if err == nil || !strings.Contains(err.Error(), typedPatch) {
		return nil
	}
	_, said, _ := strings.Cut(err.Error(), typedPatch)
	if _, fields, found := strings.Cut(said, "): "); found {
		said = fields
	}
	return fail.New(fail.Invalid, "%s", said)
}

// typedPatch begins the error about a field that does not exist: "… (shop/web; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema".
const typedPatch = "failed to create typed patch object"

// unserved fails with fail.Invalid if the API does not serve a kind of Kubernetes' own in its version: waiting for it would be in vain.
func (c *Applier) unserved(u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind()
	if own := scheme.Scheme.IsGroupRegistered(kind.Group) || kind.Group == "apiextensions.k8s.io" || kind.Group == "apiregistration.k8s.io"; !own {
		return nil
	}
	err := fail.New(fail.Invalid, "the cluster does not serve %s of %s", kind.Kind, u.GetAPIVersion())
	if served, e := c.Mapper.RESTMapping(kind.GroupKind()); e == nil {
		return err.Do("write it as %s", served.GroupVersionKind.GroupVersion())
	}
	return err.Do("this release of Kubernetes does not have it")
}
