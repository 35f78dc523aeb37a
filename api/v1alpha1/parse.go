package v1alpha1

import (
	"bytes"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
)

// Parse parses one document strictly, fills in defaults and validates it. The name is the file's, for messages. The error is an Errors with all
// problems.
func Parse(name string, data []byte) (*Cluster, error) { return parse(name, data, (*Cluster).check) }

// ParseFilledIn is Parse for a document that is about to be used: it also refuses placeholder values of New that the user did not replace.
func ParseFilledIn(name string, data []byte) (*Cluster, error) {
	return parse(name, data, func(c *Cluster, r *findings) {
		c.check(r)
		c.checkMadeUp(r)
		c.checkAuthoritiesLast(r, time.Now())
		c.checkRegistriesExpiry(r, time.Now())
	})
}

func parse(name string, data []byte, check func(*Cluster, *findings)) (*Cluster, error) {
	r := strict.New(name)
	c := &Cluster{}
	if root := r.Document(data); root != nil && known(r, root) {
		r.Decode(root, c)
		c.Default()
		check(c, r)
	}
	if errs := r.Sorted(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// known reports whether this program supports the document's version and kind, and adds a finding if it does not.
func known(r *findings, root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode {
		r.AddAt(r.Where[""], "", "expected a mapping with apiVersion, kind, metadata and spec, got "+strict.Describe(root), "")
		return false
	}
	ok := true
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if v.Kind != yaml.ScalarNode || strict.IsNull(v) {
			continue
		}
		at := strict.Position{Line: v.Line, Column: v.Column}
		switch {
		case k.Value == "apiVersion" && v.Value != APIVersion: // conversion of further versions would start here
			r.AddAt(at, "apiVersion", "unknown version "+strict.Quote(v.Value), "this naupegos reads "+APIVersion)
			ok = false
		case k.Value == "kind" && v.Value != Kind:
			r.AddAt(at, "kind", "unknown kind "+strict.Quote(v.Value), "this naupegos reads "+Kind)
			ok = false
		}
	}
	return ok
}

// Marshal returns the document as canonical YAML: fields in their order, two spaces of indentation, no comments. Parse accepts the result.
func (c *Cluster) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the cluster document as YAML")
	}
	if err := enc.Close(); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the cluster document as YAML")
	}
	return b.Bytes(), nil
}
