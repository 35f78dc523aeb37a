package wanted

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// SetReplicas returns the document with another number of machines in one group: of the control plane, or of the pool of
// workers. Everything else stays as it was written: comments, order, blank lines.
func SetReplicas(document []byte, role provider.Role, pool string, n int) ([]byte, error) {
	spec, err := specOf(document)
	if err != nil {
		return nil, err
	}
	field := "spec.controlPlane.replicas"
	var at *yaml.Node
	switch role {
	case provider.ControlPlane:
		if at = entry(spec, "controlPlane"); at == nil && spec != nil {
			return insert(document, spec, "controlPlane", "{replicas: "+strconv.Itoa(n)+"}", `{"replicas": `+strconv.Itoa(n)+"}")
		}
	case provider.Worker:
		at, field = poolEntry(spec, pool), fmt.Sprintf("replicas of pool %s in spec.workers", pool)
	}
	edited, err := setScalar(document, at, "replicas", strconv.Itoa(n), strconv.Itoa(n))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "edit the document").Do("set %s to %d in it and apply", field, n)
	}
	return edited, nil
}

// SetVersion returns the document with another release of Kubernetes. Everything else stays as it was written.
func SetVersion(document []byte, version string) ([]byte, error) {
	spec, err := specOf(document)
	if err != nil {
		return nil, err
	}
	at := entry(spec, "kubernetes")
	if at == nil && spec != nil {
		return insert(document, spec, "kubernetes", "{version: "+version+"}", `{"version": `+strconv.Quote(version)+"}")
	}
	edited, err := setScalar(document, at, "version", version, strconv.Quote(version))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "edit the document").Do("set spec.kubernetes.version to %s in it and apply", version)
	}
	return edited, nil
}

// SetName returns the document of a cluster of another name. Everything else stays as it was written.
func SetName(document []byte, name string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the document")
	}
	edited, err := setScalar(document, entry(content(&root), "metadata"), "name", name, strconv.Quote(name))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "edit the document").Do("set metadata.name to %s in it", name)
	}
	return edited, nil
}

// SetPoolVersion returns the document with another release for a pool of workers. Everything else stays as it was written.
func SetPoolVersion(document []byte, pool, version string) ([]byte, error) {
	spec, err := specOf(document)
	if err != nil {
		return nil, err
	}
	edited, err := setScalar(document, poolEntry(spec, pool), "version", version, strconv.Quote(version))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "edit the document").Do("set version of pool %s in spec.workers to %s in it and apply", pool, version)
	}
	return edited, nil
}

// specOf returns the document's spec, or nil.
func specOf(document []byte) (*yaml.Node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the document")
	}
	return entry(content(&root), "spec"), nil
}

// setScalar sets an entry of a mapping to a value, written as inJSON if the document is JSON or the old value was in double quotes.
func setScalar(document []byte, at *yaml.Node, key, value, inJSON string) ([]byte, error) {
	if at == nil || at.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("it is not written there in a form that can be edited")
	}
	old := entry(at, key)
	if old == nil {
		return insert(document, at, key, value, inJSON)
	}
	length := len(old.Value)
	switch {
	case old.Kind != yaml.ScalarNode || old.Anchor != "" || old.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0:
		return nil, fmt.Errorf("line %d: the %s is not a plain one", old.Line, key)
	case old.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		length, value = length+2, inJSON
	}
	return splice(document, old.Line, old.Column, length, value), nil
}

// content is the node inside of a document node.
func content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		return n.Content[0]
	}
	return n
}

// entry returns the value of a key of a mapping, or nil.
func entry(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func poolEntry(spec *yaml.Node, pool string) *yaml.Node {
	workers := entry(spec, "workers")
	if workers == nil || workers.Kind != yaml.SequenceNode {
		return nil
	}
	for _, w := range workers.Content {
		if name := entry(w, "name"); name != nil && name.Value == pool {
			return w
		}
	}
	return nil
}

// insert puts an entry in front of a mapping's first one; JSON stays JSON.
func insert(document []byte, m *yaml.Node, key, value, inJSON string) ([]byte, error) {
	if len(m.Content) > 0 && m.Content[0].Style&yaml.DoubleQuotedStyle != 0 {
		key, value = strconv.Quote(key), inJSON
	}
	if m.Style&yaml.FlowStyle != 0 {
		text := key + ": " + value
		if len(m.Content) > 0 {
			text += ", "
		}
		return splice(document, m.Line, m.Column+1, 0, text), nil
	}
	if len(m.Content) == 0 {
		return nil, fmt.Errorf("line %d: there is nothing to put it beside", m.Line)
	}
	first := m.Content[0]
	indent := "\n" + strings.Repeat(" ", first.Column-1)
	return splice(document, first.Line, first.Column, 0, key+": "+value+indent), nil
}

// splice replaces length bytes at a line and column (both from 1, columns in characters) by text.
func splice(document []byte, line, column, length int, text string) []byte {
	at := 0
	for range line - 1 {
		at += bytes.IndexByte(document[at:], '\n') + 1
	}
	rest := []rune(string(document[at:]))
	at += len(string(rest[:column-1]))
	return bytes.Join([][]byte{document[:at], []byte(text), document[at+length:]}, nil)
}
