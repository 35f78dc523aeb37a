package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// MaxDocumentBytes is the maximum size of a document; Document refuses larger ones without parsing.
const MaxDocumentBytes = 1 << 20

// maxContentBytes bounds the lines that hold contents of files: see content.
const maxContentBytes = 5 << 20

// content matches a line that holds the content of a file in base64, as Naupegos writes it into documents. Such lines are single values and don't count
// towards MaxDocumentBytes.
var content = regexp.MustCompile(`(?m)^ *"?([^"\n]+)"?: "?[A-Za-z0-9+/=]*"?,?$`)

// tooLarge reports whether a document is larger than anything that Naupegos reads.
func tooLarge(data []byte) bool {
	if len(data) <= MaxDocumentBytes {
		return false
	}
	if len(data) > MaxDocumentBytes+maxContentBytes {
		return true
	}
	size := len(data)
	for _, at := range content.FindAllSubmatchIndex(data, -1) {
		if key := at[3] - at[2]; key <= 1000 {
			size -= at[1] - at[0]
		}
	}
	return size > MaxDocumentBytes
}

// Document returns the root of the single document in data. If data is not such a document, it reports why and returns nil.
func (r *Findings) Document(data []byte) *yaml.Node {
	if tooLarge(data) {
		r.AddAt(Position{}, "", fmt.Sprintf("is larger than %d KiB", MaxDocumentBytes>>10), "is this the right file?")
		return nil
	}
	if p, problem, hint := NotText(data); problem != "" {
		r.AddAt(p, "", problem, hint)
		return nil
	}
	roots, err := Documents(bytes.TrimPrefix(data, []byte("\ufeff")))
	if err != nil {
		r.syntax(err, data)
		return nil
	}
	switch len(roots) {
	case 0:
		r.AddAt(Position{1, 1}, "", "the document is empty", "\"naupegos init\" writes one")
		return nil
	case 1:
		r.Where[""] = Position{roots[0].Line, roots[0].Column}
		return roots[0]
	}
	second := roots[1]
	r.AddAt(Position{second.Line, second.Column}, "", "a second document starts here", "one file holds one cluster")
	return nil
}

// Documents parses the non-empty documents of a YAML stream, at most two.
func Documents(data []byte) (roots []*yaml.Node, err error) {
	// The parser is not ours: if it panics, the document is unreadable to the user, and not a crash.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("can't be read: %v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for len(roots) < 2 {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if len(n.Content) == 1 && !IsNull(n.Content[0]) {
			roots = append(roots, n.Content[0])
		}
	}
	return roots, nil
}
