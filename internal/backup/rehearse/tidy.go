package rehearse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/kube"
)

// Tidy says what a cluster will find when it starts from a set: what the set says beyond that is taken out of it.
type Tidy struct {
	Machines []string // the nodes that there will be
	Rebuilt  bool     // they are other machines: no volume is attached to them that the set knows of
	Anew     *Anew    // it is another cluster that starts; nil: the one that the set is of
}

// The keys of what nobody holds any more.
var stale = []string{"/registry/leases/", "/registry/masterleases/", "/registry/peerserverleases/"}

// bound is an object that belongs to a node.
type bound struct{ key, node, resource string }

// tidying finds what is not true any more when a cluster starts from a set.
type tidying struct {
	Tidy
	gone  map[string]string // keys with the resource that they are of
	nodes map[string]bool   // those that stay
	bound []bound
}

func newTidying(t *Tidy) *tidying {
	if t == nil {
		return nil
	}
	return &tidying{Tidy: *t, gone: map[string]string{}, nodes: map[string]bool{}}
}

// visit decides about one object.
func (t *tidying) visit(o kube.Counted) {
	text := func(path ...string) string {
		v, _, _ := unstructured.NestedString(o.Object.Object, path...)
		return v
	}
	if t.Anew != nil && former(o) {
		t.gone[o.Key] = o.Resource
		return
	}
	switch o.Resource {
	case "nodes":
		ours := o.Object.GetAnnotations()[kube.OwnedLabels] != ""
		lost := !slices.Contains(t.Machines, o.Object.GetName()) || t.Rebuilt && text("spec", "providerID") != "" // which never changes; another machine has another one
		if ours && lost {
			t.gone[o.Key] = o.Resource
			return
		}
		t.nodes[o.Object.GetName()] = true
	case "pods":
		if controlled(o.Object) && !slices.Contains([]string{"Succeeded", "Failed"}, text("status", "phase")) {
			t.gone[o.Key] = o.Resource // its controller makes another one
			return
		}
		if node := text("spec", "nodeName"); node != "" {
			t.bound = append(t.bound, bound{o.Key, node, o.Resource})
		}
	case "volumeattachments.storage.k8s.io":
		if t.Rebuilt {
			t.gone[o.Key] = o.Resource
			return
		}
		t.bound = append(t.bound, bound{o.Key, text("spec", "nodeName"), o.Resource})
	case "csinodes.storage.k8s.io":
		t.bound = append(t.bound, bound{o.Key, o.Object.GetName(), o.Resource})
	case "endpoints", "endpointslices.discovery.k8s.io":
		if rederived(o.Object) {
			t.gone[o.Key] = o.Resource
		}
	}
}

// controlled reports whether a controller makes another one where an object is gone.
func controlled(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
}

// rederived reports whether the control plane writes endpoints anew by what runs.
func rederived(u *unstructured.Unstructured) bool {
	l := u.GetLabels()
	return l["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io" || l["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" ||
		u.GetAnnotations()["endpoints.kubernetes.io/last-change-trigger-time"] != "" || u.GetNamespace() == "default" && u.GetName() == "kubernetes"
}

// keys lists what is to go; all are the keys that etcd has.
func (t *tidying) keys(all []string) []string {
	for _, b := range t.bound {
		if !t.nodes[b.node] {
			t.gone[b.key] = b.resource
		}
	}
	for _, k := range all {
		if slices.ContainsFunc(stale, func(p string) bool { return strings.HasPrefix(k, p) }) {
			t.gone[k] = "leases"
		}
	}
	return slices.Sorted(maps.Keys(t.gone))
}

// counts says how many objects of which resource are to go.
func (t *tidying) counts() map[string]int {
	out := map[string]int{}
	for _, resource := range t.gone {
		out[resource]++
	}
	return out
}

// words says how many of what.
func words(counts map[string]int) string {
	if len(counts) == 0 {
		return "nothing"
	}
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(counts)) {
		name, _, _ := strings.Cut(r, ".")
		parts = append(parts, fmt.Sprintf("%d %s", counts[r], name))
	}
	return strings.Join(parts, ", ")
}
