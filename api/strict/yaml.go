package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxDocumentBytes is the maximum size of a document; Document refuses larger ones without parsing.
const MaxDocumentBytes = 1 << 20

// maxContentBytes bounds the lines that hold contents of files: see content.
const maxContentBytes = 5 << 20

// content matches a line that holds the content of a file in base64, as Naupegos writes it into documents. Such lines are single values and don't count
// towards MaxDocumentBytes.
var content = regexp.MustCompile(`(?m)^ *"?[^"\n]{1,1000}"?: "?[A-Za-z0-9+/=]*"?,?$`)

// tooLarge reports whether a document is larger than anything that Naupegos reads.
func tooLarge(data []byte) bool {
	if len(data) <= MaxDocumentBytes {
		return false
	}
	if len(data) > MaxDocumentBytes+maxContentBytes {
		return true
	}
	size := len(data)
	for _, at := range content.FindAllIndex(data, -1) {
		size -= at[1] - at[0]
	}
	return size > MaxDocumentBytes
}

// Document returns the root of the single document in data. If data is not such a document, it reports why and returns nil.
func (r *Findings) Document(data []byte) *yaml.Node {
	if tooLarge(data) {
		r.AddAt(Position{}, "", fmt.Sprintf("is larger than %d KiB", MaxDocumentBytes>>10), "is this the right file?")
		return nil
	}
	if p, ok := invalidUTF8(data); ok {
		r.AddAt(p, "", "is not valid UTF-8 text", "save the file as UTF-8")
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

// syntax reports an error of the YAML parser, with the line from its message.
func (r *Findings) syntax(err error, data []byte) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Position{1, 1} // the parser names no line if the error is in the first
	if m := regexp.MustCompile(`^line (\d{1,7}): `).FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // a few digits by the pattern
		text = text[len(m[0]):]
		if isParserError(text) {
			p.Line++
		}
	} else if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced`).FindStringSubmatch(text); m != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+m[1]))
		p.Line += bytes.Count(before, []byte("\n"))
	}
	hint := ""
	if strings.Contains(text, "cannot start any token") && bytes.Contains(data, []byte("\t")) {
		hint = "YAML is indented with spaces, not with tabs"
	}
	r.AddAt(p, "", "is not valid YAML: "+text, hint)
}

// isParserError reports whether the message comes from the parser proper, which counts lines from 0, rather than from the scanner, which counts from
// 1.
func isParserError(text string) bool {
	for _, s := range []string{"did not find expected <", "did not find expected node content", "did not find expected '-' indicator",
		"did not find expected key", "did not find expected ','", "found undefined tag handle", "found duplicate %", "found incompatible YAML document"} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}

// invalidUTF8 returns the position of the first byte that is not valid UTF-8.
func invalidUTF8(data []byte) (Position, bool) {
	if utf8.Valid(data) {
		return Position{}, false
	}
	p := Position{1, 1}
	for len(data) > 0 {
		c, n := utf8.DecodeRune(data)
		if c == utf8.RuneError && n == 1 {
			break
		}
		p.Column++
		if c == '\n' {
			p = Position{p.Line + 1, 1}
		}
		data = data[n:]
	}
	return p, true
}
