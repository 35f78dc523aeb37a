// Package manifest reads the objects of manifests: it parses YAML or JSON documents, sorts the objects into an order in which a cluster accepts them,
// and names and digests them.
//
// It knows no cluster.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Parse reads a stream of YAML or JSON documents and expands lists. It returns the objects in the order in which they can be created.
func Parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	docs, err := Documents(manifests)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for n, doc := range docs {
		objects, err := parseOne(doc)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read manifest document %d", n+1)
		}
		out = append(out, objects...)
	}
	Sort(out)
	return out, nil
}

// Documents splits a stream: YAML at the markers of documents, and JSON after each value.
func Documents(stream []byte) ([][]byte, error) {
	if bytes.HasPrefix(stream, []byte("\xff\xfe")) || bytes.HasPrefix(stream, []byte("\xfe\xff")) || !utf8.Valid(stream) {
		return nil, fail.New(fail.Invalid, "the text is not in UTF-8").Do("save the file as UTF-8: some shells write UTF-16 with >")
	}
	var out [][]byte
	for _, doc := range split(stream) {
		if values := jsonValues(doc); len(values) > 1 {
			out = append(out, values...)
		} else {
			out = append(out, doc)
		}
	}
	return out, nil
}

// split splits a stream of YAML at lines that begin with --- or ... as words of their own: no scalar can hold such a line. The rest of a line with --- belongs to the
// document that it begins. Directives are left out.
func split(stream []byte) (out [][]byte) {
	var doc []byte
	empty := true
	end := func() {
		if !empty {
			out = append(out, doc)
		}
		doc, empty = nil, true
	}
	for line := range bytes.Lines(stream) {
		if empty {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if _, ends := marker(line, "..."); ends {
			end()
			continue
		}
		if rest, begins := marker(line, "---"); begins {
			end()
			line = bytes.TrimLeft(rest, " \t")
		} else if empty && bytes.HasPrefix(line, []byte("%")) {
			continue
		}
		doc = append(doc, line...)
		empty = empty && len(bytes.TrimSpace(line)) == 0
	}
	end()
	return out
}

// marker returns what follows a marker at the beginning of a line.
func marker(line []byte, text string) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte(text))
	return rest, ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// jsonValues returns the values of a JSON stream, or nil if it is not one. A YAML parser would read only the first.
func jsonValues(doc []byte) (out [][]byte) {
	if !bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
		return nil
	}
	for d := json.NewDecoder(bytes.NewReader(doc)); ; {
		var v json.RawMessage
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			return nil
		}
		out = append(out, v)
	}
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
	return expand(u)
}

// expand returns an object, or the objects of a List, checked and in the form that is applied.
func expand(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if items, found := u.Object["items"]; u.GetKind() == "List" && !found || strings.HasSuffix(u.GetKind(), "List") && found && items == nil && u.GetName() == "" {
		return nil, nil // a template without rows
	}
	if !isList(u) {
		return []*unstructured.Unstructured{u}, complete(u)
	}
	var out []*unstructured.Unstructured
	for i, item := range u.Object["items"].([]any) {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d is no object", i+1)
		}
		below := &unstructured.Unstructured{Object: fields}
		if kind := strings.TrimSuffix(u.GetKind(), "List"); kind != "" && below.GetKind() == "" && below.GetAPIVersion() == "" { // the API leaves them out
			below.SetAPIVersion(u.GetAPIVersion())
			below.SetKind(kind)
		}
		objects, err := expand(below)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// isList reports whether an object is a list of objects, as opposed to a kind that has a field items or whose name ends in List.
func isList(u *unstructured.Unstructured) bool {
	_, ok := u.Object["items"].([]any)
	return ok && (u.GetKind() == "List" || strings.HasSuffix(u.GetKind(), "List") && u.GetName() == "")
}

// complete checks whether an object can be applied without loss, and moves the stringData of a Secret to its data. The API server does so too, but
// with server-side apply a key that leaves stringData would stay in data.
func complete(u *unstructured.Unstructured) error {
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return fmt.Errorf("an object has no apiVersion and kind")
	}
	meta, _ := u.Object["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace"} { // without a namespace, the object would go to another one
		if v := meta[field]; v != nil {
			if _, ok := v.(string); !ok {
				return fmt.Errorf("%s: metadata.%s is %v, not a text: put the value in quotes", u.GetKind(), field, v)
			}
		}
	}
	if u.GetName() == "" && meta["generateName"] != nil {
		return fmt.Errorf("%s has metadata.generateName and no metadata.name: give it a name, by which a plan knows it", u.GetKind())
	}
	if u.GetName() == "" {
		return fmt.Errorf("%s has no metadata.name", u.GetKind())
	}
	for _, field := range []string{"uid", "resourceVersion", "generation", "managedFields", "selfLink"} {
		delete(meta, field) // of an object that was read from a cluster
	}
	for _, field := range []string{"labels", "annotations"} {
		if err := texts(meta, field); err != nil { // otherwise all of them would get lost
			return fmt.Errorf("%s: metadata.%w", Name(u), err)
		}
	}
	if kind := u.GetKind(); u.GetAPIVersion() != "v1" || kind != "Secret" && kind != "ConfigMap" {
		return nil
	}
	for _, field := range []string{"stringData", "data"} {
		if err := texts(u.Object, field); err != nil {
			return fmt.Errorf("%s: %w", Name(u), err)
		}
	}
	if u.GetKind() != "Secret" {
		return nil
	}
	plain, _ := u.Object["stringData"].(map[string]any)
	delete(u.Object, "stringData")
	data, _ := u.Object["data"].(map[string]any)
	if data == nil && len(plain) > 0 {
		data = map[string]any{}
		u.Object["data"] = data
	}
	for _, k := range slices.Sorted(maps.Keys(data)) {
		if _, err := base64.StdEncoding.DecodeString(data[k].(string)); err != nil {
			return fmt.Errorf("%s: data[%s] is not base64: put plain text into stringData", Name(u), k) // cause withheld: it contains characters of a secret
		}
	}
	for k, v := range plain {
		data[k] = base64.StdEncoding.EncodeToString([]byte(v.(string)))
	}
	return nil
}

// texts reports a value of a field that is not a string. Like kubectl, it treats null as an empty string.
func texts(in map[string]any, field string) error {
	if in[field] == nil {
		delete(in, field)
		return nil
	}
	m, ok := in[field].(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no mapping", field)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch v := m[k].(type) {
		case nil:
			m[k] = ""
		case string:
		case bool, int64, float64:
			return fmt.Errorf("%s[%s] is %v, not a text: put the value in quotes", field, k, v)
		default:
			return fmt.Errorf("%s[%s] is not a text", field, k)
		}
	}
	return nil
}

// Rank orders kinds: dependencies come first, webhooks and the like last.
func Rank(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "Namespace", "PriorityClass", "StorageClass", "RuntimeClass":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "ServiceAccount", "ClusterRole", "Role", "NetworkPolicy", "ResourceQuota", "LimitRange": // pods need their limits when they start
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

// Digest returns the SHA-256 of an object's canonical JSON before our own marks are added.
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

// Name describes an object for people: "Deployment kube-system/coredns".
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
