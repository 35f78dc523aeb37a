package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// Parse reads one document strictly, fills in the defaults and validates it. The name is the file's, for messages.
// The error is an Errors with all that is wrong.
func Parse(name string, data []byte) (*Cluster, error) { return parse(name, data, (*Cluster).check) }

// ParseFilledIn is Parse for a document that somebody is about to use: what New made up, for its user to replace, is wrong, too.
func ParseFilledIn(name string, data []byte) (*Cluster, error) {
	return parse(name, data, func(c *Cluster, r *findings) {
		c.check(r)
		c.checkMadeUp(r)
		c.checkAuthoritiesLast(r, time.Now())
		c.checkRegistriesExpiry(r, time.Now())
	})
}

func parse(name string, data []byte, check func(*Cluster, *findings)) (*Cluster, error) {
	r := &findings{file: name, where: map[string]position{}}
	c := &Cluster{}
	if root := r.document(data); root != nil && r.known(root) {
		d := &decoder{findings: r}
		d.mapping("", root, reflect.ValueOf(c).Elem())
		c.Default()
		check(c, r)
	}
	if errs := r.sorted(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// document returns the root of the single document in data, or nil after reporting why there is none.
func (r *findings) document(data []byte) *yaml.Node {
	if len(data) > MaxDocumentBytes {
		r.addAt(position{}, "", fmt.Sprintf("is larger than %d KiB", MaxDocumentBytes>>10), "is this the right file?")
		return nil
	}
	if p, ok := invalidUTF8(data); ok {
		r.addAt(p, "", "is not valid UTF-8 text", "save the file as UTF-8")
		return nil
	}
	roots, err := yamlDocuments(bytes.TrimPrefix(data, []byte("\ufeff")))
	if err != nil {
		r.syntax(err, data)
		return nil
	}
	switch len(roots) {
	case 0:
		r.addAt(position{1, 1}, "", "the document is empty", "\"naupegos init\" writes one")
		return nil
	case 1:
		r.where[""] = position{roots[0].Line, roots[0].Column}
		return roots[0]
	}
	second := roots[1]
	r.addAt(position{second.Line, second.Column}, "", "a second document starts here", "one file holds one cluster")
	return nil
}

// yamlDocuments reads the non-empty documents of a YAML stream, two at most.
func yamlDocuments(data []byte) (roots []*yaml.Node, err error) {
	// The parser is not ours: whatever makes it panic is an unreadable document to the user, not a crash.
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
		if len(n.Content) == 1 && !isNull(n.Content[0]) {
			roots = append(roots, n.Content[0])
		}
	}
	return roots, nil
}

// syntax reports what the YAML parser says, with the line out of its message.
func (r *findings) syntax(err error, data []byte) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := position{1, 1} // the parser names no line where it is the first
	if m := regexp.MustCompile(`^line (\d{1,7}): `).FindStringSubmatch(text); m != nil {
		p.line, _ = strconv.Atoi(m[1]) // a few digits by the pattern
		text = text[len(m[0]):]
		if isParserError(text) {
			p.line++
		}
	} else if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced`).FindStringSubmatch(text); m != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+m[1]))
		p.line += bytes.Count(before, []byte("\n"))
	}
	hint := ""
	if strings.Contains(text, "cannot start any token") && bytes.Contains(data, []byte("\t")) {
		hint = "YAML is indented with spaces, not with tabs"
	}
	r.addAt(p, "", "is not valid YAML: "+text, hint)
}

// isParserError reports whether the message comes from the parser proper, which counts lines from 0, and not from the
// scanner, which counts from 1.
func isParserError(text string) bool {
	for _, s := range []string{"did not find expected <", "did not find expected node content", "did not find expected '-' indicator",
		"did not find expected key", "did not find expected ','", "found undefined tag handle", "found duplicate %", "found incompatible YAML document"} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}

// known reports whether this program can read the document's version and kind, and reports if not.
func (r *findings) known(root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode {
		r.addAt(r.where[""], "", "expected a mapping with apiVersion, kind, metadata and spec, got "+describe(root), "")
		return false
	}
	ok := true
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if v.Kind != yaml.ScalarNode || isNull(v) {
			continue
		}
		at := position{v.Line, v.Column}
		switch {
		case k.Value == "apiVersion" && v.Value != APIVersion: // further versions are converted from here
			r.addAt(at, "apiVersion", "unknown version "+quote(v.Value), "this naupegos reads "+APIVersion)
			ok = false
		case k.Value == "kind" && v.Value != Kind:
			r.addAt(at, "kind", "unknown kind "+quote(v.Value), "this naupegos reads "+Kind)
			ok = false
		}
	}
	return ok
}

// invalidUTF8 finds the first byte that is not UTF-8.
func invalidUTF8(data []byte) (position, bool) {
	if utf8.Valid(data) {
		return position{}, false
	}
	p := position{1, 1}
	for len(data) > 0 {
		c, n := utf8.DecodeRune(data)
		if c == utf8.RuneError && n == 1 {
			break
		}
		p.column++
		if c == '\n' {
			p = position{p.line + 1, 1}
		}
		data = data[n:]
	}
	return p, true
}

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
