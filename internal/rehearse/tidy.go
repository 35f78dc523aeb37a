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

// Tidy describes the cluster that will start from a set. Objects that would be wrong there are removed from the snapshot: nodes without a machine and
// objects bound to them, and outdated state such as leases, endpoints, and pods that controllers recreate.
type Tidy struct {
	Machines []string // its nodes
	Rebuilt  bool     // the machines are new: the set's volume attachments and nodes' provider IDs do not apply to them
	Anew     *Anew    // a different cluster starts; nil: the set's own
}

// stale lists prefixes of keys whose holders no longer exist.
var stale = []string{"/registry/leases/", "/registry/masterleases/", "/registry/peerserverleases/"}

// bound is an object that belongs to a node.
type bound struct{ key, node, resource string }

// tidying finds objects that no longer apply when a cluster starts from a set.
type tidying struct {
	Tidy
	gone  map[string]string // keys, with their resources
	nodes map[string]bool   // the nodes that stay
	bound []bound
}

func newTidying(t *Tidy) *tidying {
	if t == nil {
		return nil
	}
	return &tidying{Tidy: *t, gone: map[string]string{}, nodes: map[string]bool{}}
}

// visit decides whether an object stays, or remembers the node on which that depends.
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
		lost := !slices.Contains(t.Machines, o.Object.GetName()) || t.Rebuilt && text("spec", "providerID") != "" // providerID never changes, and a new machine has a new one
		if ours && lost {
			t.gone[o.Key] = o.Resource
			return
		}
		t.nodes[o.Object.GetName()] = true
	case "pods":
		if controlled(o.Object) && !slices.Contains([]string{"Succeeded", "Failed"}, text("status", "phase")) {
			t.gone[o.Key] = o.Resource // its controller creates another one
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

// controlled reports whether a controller replaces this object if it is deleted.
func controlled(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
}

// rederived reports whether the control plane writes these endpoints, and so recreates them from what runs: pods, or for default/kubernetes API servers.
func rederived(u *unstructured.Unstructured) bool {
	l := u.GetLabels()
	return l["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io" || l["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" ||
		u.GetAnnotations()["endpoints.kubernetes.io/last-change-trigger-time"] != "" || u.GetNamespace() == "default" && u.GetName() == "kubernetes"
}

// keys lists the keys to remove; all are the keys in etcd.
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

// counts returns the number of objects to remove by resource.
func (t *tidying) counts() map[string]int {
	out := map[string]int{}
	for _, resource := range t.gone {
		out[resource]++
	}
	return out
}

// words formats counts by resource.
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
