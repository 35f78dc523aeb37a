package v1alpha1

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// Marshal writes the document as canonical YAML: fields in their order, two spaces, no comments. Parse reads it back.
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
