package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/naupegos/naupegos/internal/fail"
)

// Counted is one object that Census visits.
type Counted struct {
	Resource string // "deployments.apps"
	Key      string // where API servers store it in etcd
	Digest   [sha256.Size]byte
	Object   *unstructured.Unstructured
}

// Kept returns the prefix of the etcd keys under which API servers store the objects of a resource.
type Kept struct{ Resource, Prefix string }

// censusPage is the number of objects that one request of a census fetches.
const censusPage = 500

// Census calls visit for all objects of all resources that the API serves and stores, page by page, and returns the resources. It leaves out
// the group metrics.k8s.io, which another server provides. An error of visit ends it.
func (c *Client) Census(ctx context.Context, visit func(Counted) error) ([]Kept, error) {
	resources, err := c.stored(ctx)
	if err != nil {
		return nil, err
	}
	var kept []Kept
	for _, r := range resources {
		k := Kept{r.GroupResource().String(), storedBelow(r)}
		kept = append(kept, k)
		if err := c.count(ctx, r, k, visit); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// count calls visit for all objects of one resource.
func (c *Client) count(ctx context.Context, r schema.GroupVersionResource, k Kept, visit func(Counted) error) error {
	o := metav1.ListOptions{Limit: censusPage}
	for {
		list, err := c.dynamic.Resource(r).List(ctx, o)
		if apierrors.IsNotFound(err) { // its definition has just gone
			return nil
		}
		if err != nil {
			return apiError(ctx, err, "read %s", k.Resource).At(c.server)
		}
		for i := range list.Items {
			u := &list.Items[i]
			digest, err := ContentDigest(u)
			if err != nil {
				return fail.Wrap(fail.Internal, err, "digest %s %s", k.Resource, u.GetName())
			}
			if err := visit(Counted{k.Resource, path.Join(k.Prefix, u.GetNamespace(), u.GetName()), digest, u}); err != nil {
				return err
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

// ContentDigest returns the digest of an object without the fields that every write changes: its resource version and managed fields.
func ContentDigest(u *unstructured.Unstructured) ([sha256.Size]byte, error) {
	content := u.DeepCopy()
	content.SetResourceVersion("")
	content.SetManagedFields(nil)
	data, err := json.Marshal(content.Object) // keys are sorted
	return sha256.Sum256(data), err
}

// stored lists the stored resources that can be listed, each in its storage version if that is served: another version may need a webhook.
func (c *Client) stored(ctx context.Context) ([]schema.GroupVersionResource, error) {
	lists, err := c.set.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, apiError(ctx, err, "ask which resources the API serves").At(c.server)
	}
	versions, err := c.storageVersions(ctx)
	if err != nil {
		return nil, err
	}
	var out []schema.GroupVersionResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read which resources the API serves")
		}
		for _, r := range l.APIResources {
			resource := gv.WithResource(r.Name)
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") || notStored(resource.GroupResource()) {
				continue
			}
			if v := versions[resource.GroupResource()]; v != "" {
				resource.Version = v
			}
			out = append(out, resource)
		}
	}
	return out, nil
}

// storageVersions returns the versions in which custom resources are stored, if these are served.
func (c *Client) storageVersions(ctx context.Context) (map[schema.GroupResource]string, error) {
	list, err := listDefinitions(ctx, c)
	if err != nil {
		return nil, apiError(ctx, err, "read the definitions of custom resources").At(c.server)
	}
	out := map[schema.GroupResource]string{}
	for _, d := range list {
		group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(d.Object, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		for _, v := range versions {
			if m, ok := v.(map[string]any); ok && m["storage"] == true && m["served"] == true {
				out[schema.GroupResource{Group: group, Resource: plural}], _ = m["name"].(string)
			}
		}
	}
	return out, nil
}

// unservedVersions says in which unserved versions objects of a definition may be stored: no client can read the objects in these versions, and
// removing such a version from the definition loses the objects.
func unservedVersions(definition *unstructured.Unstructured) (found []string) {
	stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	served, storage := map[any]bool{}, any(nil)
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			served[m["name"]] = m["served"] == true
			if m["storage"] == true {
				storage = m["name"]
			}
		}
	}
	for _, v := range stored {
		remedy := "write each of them once more, then take " + v + " out of the definition's status.storedVersions"
		if storage == v {
			remedy = "make the definition serve it, or store another one"
		}
		if !served[v] {
			found = append(found, fmt.Sprintf("%s may be stored in version %s, which their definition does not serve: %s", definition.GetName(), v, remedy))
		}
	}
	return found
}

// StoredIn returns which of these versions of Kubernetes' own groups ("scheduling.k8s.io/v1alpha2") have objects.
func (c *Client) StoredIn(ctx context.Context, groupVersions []string) (found []string, err error) {
	for _, name := range groupVersions {
		resources, err := c.set.Discovery().ServerResourcesForGroupVersion(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, apiError(ctx, err, "ask whether the API serves %s", name).At(c.server)
		}
		gv, err := schema.ParseGroupVersion(name)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read %s", name)
		}
		for _, r := range resources.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			list, err := c.dynamic.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{Limit: 1})
			if apierrors.IsNotFound(err) { // its definition has just gone
				continue
			}
			if err != nil {
				return nil, apiError(ctx, err, "look for %s of %s", r.Name, name).At(c.server)
			}
			if len(list.Items) > 0 {
				found = append(found, fmt.Sprintf("there are %s of %s, which the new release can't read: delete them, and make them again afterwards in a version that it has", r.Name, name))
			}
		}
	}
	return found, nil
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// notStored reports whether a listed resource is not stored, or is another resource under a second name.
func notStored(r schema.GroupResource) bool {
	return r == schema.GroupResource{Resource: "componentstatuses"} || r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"} ||
		r.Group == "metrics.k8s.io"
}

// ofKubernetes reports whether a group is one of Kubernetes' own, whose objects are stored without the group's name. Groups of custom resources
// may have the same suffix.
func ofKubernetes(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains([]string{
		"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
		"events.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io",
		"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
	}, group)
}

// storedBelow returns the prefix under which API servers store a resource (pkg/kubeapiserver/default_storage_factory_builder.go of Kubernetes).
func storedBelow(r schema.GroupVersionResource) string {
	const root = "/registry/"
	special := map[schema.GroupResource]string{
		{Resource: "replicationcontrollers"}:                "controllers",
		{Resource: "endpoints"}:                             "services/endpoints",
		{Resource: "nodes"}:                                 "minions",
		{Resource: "services"}:                              "services/specs",
		{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
	}
	if name := special[r.GroupResource()]; name != "" {
		return root + name
	}
	if ofKubernetes(r.Group) {
		return root + r.Resource
	}
	return root + r.Group + "/" + r.Resource
}
