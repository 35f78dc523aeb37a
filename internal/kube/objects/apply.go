// Package objects applies sets of objects to a cluster: it compares them with the live objects, applies them server-side, keeps an inventory of each set,
// prunes and deletes.
package objects

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// FieldManager is the field manager of everything that this package applies.
const FieldManager = "naupegos"

// Metadata of applied objects. Objects without an addon have no AddonLabel.
const (
	AddonLabel       = "naupegos.dev/addon"  // the addon, or the set of the document, that the object belongs to
	DigestAnnotation = "naupegos.dev/digest" // digest of the object as it was last applied

	contentAnnotation = "naupegos.dev/content" // of an addon's object: the same without metadata
)

// Options are the options of Apply.
type Options struct {
	Addon string // labels every object with this name and keeps an inventory under it; empty: no label and no inventory
	Prune bool   // removes objects that an earlier Apply of the same addon made and that the manifests no longer contain

	// Shared means that people and other programs change the objects, too. Apply then refuses an object that belongs to another set, and fields that
	// another program manages, unless Force is set. It reverts fields that people changed with kubectl.
	Shared bool
	Force  bool
	Once   bool // the inventory records that the set is applied a single time
	// Helm names the Helm release, "NAMESPACE/NAME", whose objects the set takes over; empty: none.
	Helm  string
	From  []string // sets that leave the document: this one takes over their objects
	Hooks string   // digest of the set's hooks, for the inventory
	Unrun []string // hooks of the set's removal, which are not run, for the inventory
	// Moved maps objects, by identity, to the set of the document from which this one takes them over, and Heirs to the set that takes them from this
	// one.
	Moved, Heirs map[string]string
}

// Result lists the applied and the removed objects.
type Result struct {
	Applied []string // "Deployment kube-system/coredns", in order
	Pruned  []string
}

// Mapper finds the resources of kinds. Reset clears its cache after a definition was added.
type Mapper interface {
	meta.RESTMapper
	Reset()
}

// Applier applies sets of objects to one cluster.
type Applier struct {
	Host    string // the API's URL, for messages
	Set     kubernetes.Interface
	Dynamic dynamic.Interface
	Meta    metadata.Interface
	Mapper  Mapper
}

// parallel bounds how many objects are applied or compared at once.
const parallel = 8

// Apply applies the objects of the manifests (server-side apply, taking over fields that others set) in an order that works: namespaces,
// definitions (waiting until they are served), rights, configuration, services, workloads, webhooks. After an error some objects may be
// applied; another Apply finishes the work.
func (c *Applier) Apply(ctx context.Context, manifests []byte, o Options) (Result, error) {
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return Result{}, err
	}
	return c.ApplyObjects(ctx, objects, o)
}

// ApplyObjects is Apply of objects in their order of manifest.Sort.
func (c *Applier) ApplyObjects(ctx context.Context, objects []*unstructured.Unstructured, o Options) (Result, error) {
	var result Result
	digest, err := manifest.DigestAll(objects)
	if err != nil {
		return result, err
	}
	before, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return result, err
	}
	keep := refs(objects)
	doing := digest // a change that was begun stays recorded until an apply is complete, because its hooks have to follow
	if before.Digest == "" && before.Doing != "" && before.Doing != before.Last {
		doing = before.Doing
	}
	// Recorded before anything is created, so that the next Apply knows the objects of an interrupted one.
	begun := inventory{Objects: union(before.Objects, keep), Jobs: before.Jobs, Last: cmp.Or(before.Digest, before.Last), Doing: doing, Hooks: before.Hooks, Unrun: before.Unrun}
	if err := (gate{c}).unblocked(ctx, o, func() error { return c.record(ctx, o, begun) }); err != nil {
		return result, err
	}
	left, err := c.unended(ctx, objects, before)
	if err != nil {
		return result, err
	}
	for len(left) > 0 {
		n := sameRank(left)
		if err := (gate{c}).unblocked(ctx, o, func() error { return c.applyRank(ctx, left[:n], o) }); err != nil {
			return result, err
		}
		for _, u := range left[:n] {
			result.Applied = append(result.Applied, manifest.Name(u))
		}
		left = left[n:]
	}
	if o.Prune {
		if result.Pruned, err = c.prune(ctx, before.Objects, keep, o); err != nil {
			return result, err
		}
	} else {
		keep = union(before.Objects, keep)
	}
	jobs, err := vanishing(objects)
	if err != nil {
		return result, err
	}
	return result, c.record(ctx, o, inventory{Digest: digest, Objects: keep, Jobs: jobs, Hooks: o.Hooks, Unrun: o.Unrun})
}

func sameRank(objects []*unstructured.Unstructured) int {
	n := 1
	for n < len(objects) && manifest.Rank(objects[n]) == manifest.Rank(objects[0]) {
		n++
	}
	return n
}

func (c *Applier) applyRank(ctx context.Context, objects []*unstructured.Unstructured, o Options) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, u := range objects {
		g.Go(func() error { return c.applyOne(gctx, u.DeepCopy(), o) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, u := range objects {
		if u.GetKind() == "CustomResourceDefinition" {
			if err := c.waitEstablished(ctx, u); err != nil {
				return err
			}
			c.Mapper.Reset()
		}
	}
	return nil
}

// marked returns a copy of an object with the marks of its set.
func marked(u *unstructured.Unstructured, addon string) (*unstructured.Unstructured, error) {
	digest, err := manifest.Digest(u)
	if err != nil {
		return nil, err
	}
	bare := u.DeepCopy()
	delete(bare.Object, "metadata")
	content, err := manifest.Digest(bare)
	if err != nil {
		return nil, err
	}
	u = u.DeepCopy()
	u.SetAnnotations(with(u.GetAnnotations(), DigestAnnotation, digest))
	if addon != "" {
		u.SetLabels(with(u.GetLabels(), AddonLabel, addon))
		u.SetAnnotations(with(u.GetAnnotations(), contentAnnotation, content))
	}
	return u, nil
}

func (c *Applier) applyOne(ctx context.Context, wanted *unstructured.Unstructured, o Options) error {
	u, err := marked(wanted, o.Addon)
	if err != nil {
		return err
	}
	r, err := c.resource(ctx, refOf(u))
	if err != nil {
		return err
	}
	if o.Shared {
		err = c.applyShared(ctx, r, u, o)
	} else {
		_, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if answer.Immutable(err) {
		live, gone := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if gone != nil && !apierrors.IsNotFound(gone) {
			return answer.Error(ctx, gone, "get %s", manifest.Name(u)).At(c.Host)
		}
		if refused := replacement(u, live, err); gone == nil && refused != nil {
			return refused
		}
		if err := c.Remove(ctx, u); err != nil {
			return err
		}
		if err := c.waitGone(ctx, []ref{refOf(u)}); err != nil {
			return err
		}
		_, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if err != nil {
		e := answer.Error(ctx, err, "apply %s", manifest.Name(u)).At(c.Host)
		switch {
		case answer.MissingNamespace(err):
			e.Kind = fail.NotReady // kube-system appears shortly after the API; other namespaces come with their own manifests
		case strings.Contains(err.Error(), "failed to create typed patch object"):
			e.Kind = fail.Invalid // a field of the wrong type, which the API server reports as an internal error
		case strings.Contains(err.Error(), "must appear in spec.versions"):
			return e.Do("the cluster may hold objects in a version that the new definition lacks: write each object again, then remove the version from the definition's status.storedVersions")
		}
		return e
	}
	return nil
}

// replaceable are kinds whose objects may be deleted and created again if an immutable field changes: volumes do not need the class that they were made
// with, and a binding has no state.
var replaceable = map[string]bool{"StorageClass": true, "ClusterRoleBinding": true, "RoleBinding": true}

// replacement returns nil if the live object may be deleted and recreated because an immutable field differs; otherwise why not, with a remedy.
func replacement(u, live *unstructured.Unstructured, said error) *fail.Error {
	if replaceable[u.GetKind()] || isJob(u) && ended(live) {
		return nil
	}
	e := fail.New(fail.Conflict, "would change a field that never changes: %s", told(said)).At(manifest.Name(u))
	if isJob(u) {
		return e.Do("wait until the Job has ended, or delete it, then apply")
	}
	return e.Do("take the change back, or delete the object (kubectl delete %s), then apply", deletion(u))
}

func deletion(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		return strings.ToLower(u.GetKind()) + " " + u.GetName()
	}
	return "-n " + u.GetNamespace() + " " + strings.ToLower(u.GetKind()) + " " + u.GetName()
}

// told returns what the API says about an object's fields, without their values.
func told(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return "the API refuses it"
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		_, why, found := strings.Cut(cause.Message, "}: ") // the message of an invalid value shows the value
		if !found {
			why = cause.Message
			if i := strings.LastIndex(why, ": "); i >= 0 {
				why = why[i+2:]
			}
		}
		if line := strings.TrimSpace(cause.Field + ": " + why); !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

// ended reports whether a Job is complete or has failed for good.
func ended(job *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && (m["type"] == "Complete" || m["type"] == "Failed") && m["status"] == "True"
	})
}

func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// resource returns the client for objects of a reference's kind, in the reference's namespace if the kind is namespaced.
func (c *Applier) resource(ctx context.Context, r ref) (dynamic.ResourceInterface, error) {
	m, err := c.Mapping(ctx, r.APIVersion, r.Kind)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.Dynamic.Resource(m.Resource), nil
	}
	return c.Dynamic.Resource(m.Resource).Namespace(r.namespace()), nil
}

// held is resource for an object that the cluster may hold in a version that is no longer served.
func (c *Applier) held(ctx context.Context, r ref) (dynamic.ResourceInterface, error) {
	ri, err := c.resource(ctx, r)
	if !meta.IsNoMatchError(err) {
		return ri, err
	}
	m, other := c.Mapper.RESTMapping(r.object().GroupVersionKind().GroupKind())
	if meta.IsNoMatchError(other) {
		return nil, err
	}
	if other != nil {
		return nil, answer.Error(ctx, other, "find the kind %s", r.Kind).At(c.Host)
	}
	r.APIVersion = m.GroupVersionKind.GroupVersion().String()
	return c.resource(ctx, r)
}

// Mapping looks up a kind in the API's discovery. For an unknown kind, which may be new, it refreshes the mapper once.
func (c *Applier) Mapping(ctx context.Context, apiVersion, kind string) (*meta.RESTMapping, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	m, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, answer.Error(ctx, err, "find the kind %s of %s", kind, apiVersion).At(c.Host)
	}
	return m, nil
}
