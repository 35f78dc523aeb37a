// Package foreign recognizes files of other tools that were given in place of a Cluster document.
//
// It reads their text and opens no file. It quotes nothing of them but the kind of an object, because every other value may be a secret.
package foreign

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of the text that rules look at: any file may be given by mistake, of any size.
const (
	maxBytes     = 1 << 20
	maxDocuments = 50
)

// Document returns the root of the single document in data, which must be of this version and kind. If it is not, Document reports why and returns
// nil. A file of another tool yields one finding, which names the tool.
func Document(r *strict.Findings, data []byte, apiVersion, kind string) *yaml.Node {
	if f, ok := recognize(data); ok {
		r.AddAt(strict.Position{Line: f.line, Column: f.column}, "", "is "+f.what+", not a Cluster document of naupegos", f.do)
		return nil
	}
	root := r.Document(data)
	if root == nil {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		r.AddAt(r.Where[""], "", "expected a mapping with apiVersion, kind, metadata and spec, got "+strict.Describe(root), "")
		return nil
	}
	version := header(r, root, "apiVersion", "version", apiVersion) // conversion of further versions would start here
	if !header(r, root, "kind", "kind", kind) || !version {
		return nil
	}
	return root
}

// header reports whether a document has this value at a key. It reports another value, and a key that is not there.
func header(r *strict.Findings, root *yaml.Node, key, name, want string) bool {
	v := child(root, key)
	switch {
	case v == nil && !misspelt(root, key):
		r.AddAt(r.Where[""], key, "is missing", fmt.Sprintf(`add the line "%s: %s"`, key, want))
	case v == nil, v.Kind != yaml.ScalarNode, strict.IsNull(v), v.Value == want: // the decoder reports the rest
	default:
		r.AddAt(strict.Position{Line: v.Line, Column: v.Column}, key, "unknown "+name+" "+strict.Quote(v.Value), "this naupegos reads "+want)
		return false
	}
	return true
}

// misspelt reports whether a document has a key that differs from this one by a few letters.
func misspelt(root *yaml.Node, key string) bool {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if fail.Nearest(root.Content[i].Value, []string{key}) != "" {
			return true
		}
	}
	return false
}

// file says what a recognized file is.
type file struct {
	line, column int    // of what shows it, from 1
	what         string // the kind of file: "a kOps configuration"
	do           string // what the user can do
}

// recognize reports what data is, if a rule knows it. A file with one document that is meant for Naupegos is recognized by no rule.
func recognize(data []byte) (file, bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(data) > maxBytes || ours.Match(data) {
		return file{}, false
	}
	if _, problem, _ := strict.NotText(data); problem != "" {
		return file{}, false
	}
	docs := documents(data)
	for _, d := range docs {
		if strings.Contains(d.text("apiVersion"), "naupegos") {
			return file{}, false
		}
	}
	for _, r := range rules {
		for _, d := range docs {
			if at := r.shows(d); at != nil {
				return file{at.Line, at.Column, r.what(d), r.do}, true
			}
		}
	}
	if len(docs) == 0 || docs[0].Kind != yaml.MappingNode {
		return recognizeText(data)
	}
	return file{}, false
}

// ours matches the line that begins nearly every document of Naupegos, so that those are not parsed twice.
var ours = regexp.MustCompile(`(?m)^["']?apiVersion["']?\s*:\s*["']?[\w.-]*naupegos`)

// document is the root of one YAML document.
type document struct{ *yaml.Node }

// documents returns the documents before the first mistake.
func documents(data []byte) (docs []document) {
	defer func() { _ = recover() }() // the library may panic on such text; the strict parser then reports the mistake
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for len(docs) < maxDocuments {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return docs
		}
		if len(n.Content) == 1 && n.Content[0].Tag != "!!null" {
			docs = append(docs, document{n.Content[0]})
		}
	}
	return docs
}

// entry returns the nodes of a key and of its value in a mapping, or nil.
func entry(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	_, v := entry(n, key)
	return v
}

// keyNode returns the node of a key of a mapping, or nil.
func keyNode(n *yaml.Node, key string) *yaml.Node {
	k, _ := entry(n, key)
	return k
}

// text returns the text of a top-level key, or "".
func (d document) text(key string) string {
	if n := child(d.Node, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// has reports whether a path of keys exists below a node. The key * is any key of a mapping and any item of a list.
func has(n *yaml.Node, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if path[0] != "*" {
		c := child(n, path[0])
		return c != nil && has(c, path[1:])
	}
	first, step := 0, 1
	if n.Kind == yaml.MappingNode {
		first, step = 1, 2
	}
	for i := first; i < len(n.Content); i += step {
		if has(n.Content[i], path[1:]) {
			return true
		}
	}
	return false
}

// shows is a condition on a document: it returns the node that shows what the document is, or nil.
type shows func(document) *yaml.Node

// group matches documents whose apiVersion is of one of these groups, or of a group below.
func group(groups ...string) shows {
	return func(d document) *yaml.Node {
		of, _, _ := strings.Cut(d.text("apiVersion"), "/")
		for _, g := range groups {
			if of == g || strings.HasSuffix(of, "."+g) {
				return child(d.Node, "apiVersion")
			}
		}
		return nil
	}
}

// keys matches documents that have all these paths of keys.
func keys(paths ...string) shows {
	return func(d document) *yaml.Node {
		for _, p := range paths {
			if !has(d.Node, strings.Split(p, ".")) {
				return nil
			}
		}
		first, _, _ := strings.Cut(paths[0], ".")
		if at := keyNode(d.Node, first); at != nil {
			return at
		}
		return d.Node
	}
}

// some matches documents with at least n of these top-level keys, which are separated by spaces.
func some(n int, names string) shows {
	return func(d document) (at *yaml.Node) {
		found := 0
		for name := range strings.FieldsSeq(names) {
			if k := keyNode(d.Node, name); k != nil {
				found++
				if at == nil || k.Line < at.Line {
					at = k
				}
			}
		}
		if found < n {
			return nil
		}
		return at
	}
}

// is matches documents with one of these values, separated by spaces, at a top-level key.
func is(key, values string) shows {
	return func(d document) *yaml.Node {
		for v := range strings.FieldsSeq(values) {
			if d.text(key) == v {
				return child(d.Node, key)
			}
		}
		return nil
	}
}

// without matches documents that have none of these top-level keys.
func without(names string) shows {
	return func(d document) *yaml.Node {
		if some(1, names)(d) != nil {
			return nil
		}
		return d.Node
	}
}

// list matches documents with a list at a top-level key.
func list(key string) shows {
	return func(d document) *yaml.Node {
		if n := child(d.Node, key); n != nil && n.Kind == yaml.SequenceNode {
			return keyNode(d.Node, key)
		}
		return nil
	}
}

// all matches what every condition matches, at the place of the first.
func all(conditions ...shows) shows {
	return func(d document) (at *yaml.Node) {
		for _, c := range conditions {
			n := c(d)
			if n == nil {
				return nil
			}
			if at == nil {
				at = n
			}
		}
		return at
	}
}

// either matches what one of the conditions matches.
func either(conditions ...shows) shows {
	return func(d document) *yaml.Node {
		for _, c := range conditions {
			if at := c(d); at != nil {
				return at
			}
		}
		return nil
	}
}

var (
	objectVersion = regexp.MustCompile(`^([a-z0-9.-]+\.[a-z0-9.-]+/|apps/|batch/|autoscaling/|policy/|extensions/)?v[0-9]+((alpha|beta)[0-9]+)?$`)
	objectKind    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{1,62}$`)
)

// object matches Kubernetes objects. A Cluster of no known tool may be a document with a wrong apiVersion.
func object(d document) *yaml.Node {
	if kind := d.text("kind"); objectKind.MatchString(kind) && kind != "Cluster" && objectVersion.MatchString(d.text("apiVersion")) {
		return child(d.Node, "apiVersion")
	}
	return nil
}
