package v1alpha1

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// Marshal returns the document as canonical YAML: fields in their order, two spaces of indentation, no comments. validation.Parse accepts the result.
func (c *Cluster) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(c), enc.Close()); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the cluster document as YAML")
	}
	return b.Bytes(), nil
}
