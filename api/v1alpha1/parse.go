package v1alpha1

import (
	"bytes"
	"errors"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/foreign"
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
		c.Spec.Identity.checkExpiry(r, time.Now())
	})
}

func parse(name string, data []byte, check func(*Cluster, *findings)) (*Cluster, error) {
	r := strict.New(name)
	c := &Cluster{}
	if root := foreign.Document(r, data, APIVersion, Kind); root != nil {
		r.Decode(root, c)
		c.Default()
		check(c, r)
	}
	if errs := r.Sorted(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// Marshal returns the document as canonical YAML: fields in their order, two spaces of indentation, no comments. Parse accepts the result.
func (c *Cluster) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(c), enc.Close()); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the cluster document as YAML")
	}
	return b.Bytes(), nil
}
