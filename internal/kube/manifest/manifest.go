// Package manifest reads the objects of manifests: it parses documents of YAML or JSON, puts the objects into the order in which a
// cluster can be given them, names and digests them.
//
// It knows no cluster.
package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Parse reads a stream of YAML or JSON documents and expands lists. It returns the objects in the order in which they can be created.
func Parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var out []*unstructured.Unstructured
	for n := 1; ; n++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read manifest document %d", n)
		}
		objects, err := parseOne(doc)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read manifest document %d", n)
		}
		out = append(out, objects...)
	}
	Sort(out)
	return out, nil
}

// Sort puts objects into the order in which they can be created.
func Sort(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return Rank(a) - Rank(b) })
}

func parseOne(doc []byte) ([]*unstructured.Unstructured, error) {
	var fields map[string]any
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &fields); err != nil || len(fields) == 0 { // only comments
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil { // integers stay integers
		return nil, err
	}
	if u.IsList() {
		list, err := u.ToList()
		if err != nil {
			return nil, err
		}
		var out []*unstructured.Unstructured
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		return out, nil
	}
	if u.GetName() == "" {
		return nil, fmt.Errorf("%s has no metadata.name", u.GetKind())
	}
	return []*unstructured.Unstructured{u}, nil
}

// Rank orders kinds: what others need comes first, what reacts to others last.
func Rank(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "Namespace", "PriorityClass", "StorageClass", "RuntimeClass":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "ServiceAccount", "ClusterRole", "Role":
		return 2
	case "ClusterRoleBinding", "RoleBinding", "ConfigMap", "Secret":
		return 3
	case "Service":
		return 4
	case "DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob", "Pod":
		return 5
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService":
		return 7
	default:
		return 6
	}
}

// Digest returns the SHA-256 of an object's canonical JSON, as wanted, before our own marks are added.
func Digest(u *unstructured.Unstructured) (string, error) {
	raw, err := json.Marshal(u.Object) // encoding/json sorts keys
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", Name(u), err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// DigestAll returns the digest of a set of objects, independent of their order.
func DigestAll(objects []*unstructured.Unstructured) (string, error) {
	var all []string
	for _, u := range objects {
		d, err := Digest(u)
		if err != nil {
			return "", err
		}
		all = append(all, d)
	}
	slices.Sort(all)
	h := sha256.New()
	for _, d := range all {
		io.WriteString(h, d)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Name names an object for people: "Deployment kube-system/coredns".
func Name(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + Key(u.GetNamespace(), u.GetName())
}

// Key names an object among those of its kind: "NAMESPACE/NAME", or the name alone if the object has no namespace.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Defines returns the kind that a CustomResourceDefinition defines.
func Defines(u *unstructured.Unstructured) (schema.GroupKind, bool) {
	if u.GetKind() != "CustomResourceDefinition" {
		return schema.GroupKind{}, false
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}, true
}
