package settings

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// node is a node of a settings file. The zero value is an absent node.
type node struct {
	n    *yaml.Node
	file string
	path string // "clouds.mine.auth"
	left *int   // remaining number of keys to read from the file, because merge keys can multiply them
}

const (
	maxDepth = 50     // of nested aliases and merge keys
	maxKeys  = 100000 // per file
)

var atLine = regexp.MustCompile(`line (\d+)`)

// parse parses one document. An empty file is the zero node.
func parse(f found) (root node, err error) {
	defer func() { // a bug in the parser must not crash the program
		if p := recover(); p != nil {
			err = fail.New(fail.Invalid, "%s can't be read as YAML", f.path).Do("correct the file")
		}
	}()
	data := f.data
	if strings.HasSuffix(f.path, ".json") {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // JSON strings can't contain tabs, and YAML does not allow them as indentation
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case err == io.EOF: //nolint:errorlint // the decoder returns it bare
		return node{}, nil
	case err != nil:
		at := f.path
		if m := atLine.FindStringSubmatch(err.Error()); m != nil {
			at += ":" + m[1]
		}
		why := strings.TrimPrefix(err.Error(), "yaml: ")
		if strings.Contains(why, "unknown anchor") { // often a password that begins with an asterisk
			why = "a value that begins with * needs quotes"
		}
		return node{}, fail.New(fail.Invalid, "it is not valid YAML: %s", why).At(at).
			Do("correct the file; `openstack token issue` reads it too")
	}
	if dec.Decode(&second) == nil {
		return node{}, fail.New(fail.Invalid, "the file has several YAML documents").At(f.path)
	}
	if len(doc.Content) != 1 {
		return node{}, nil
	}
	left := maxKeys
	return node{n: doc.Content[0], file: f.path, left: &left}.resolved(), nil
}

// resolved follows aliases. It returns the zero node for null and for a cyclic alias.
func (n node) resolved() node {
	for range maxDepth {
		switch {
		case n.n == nil:
			return node{}
		case n.n.Kind == yaml.AliasNode:
			n.n = n.n.Alias
		case n.n.Kind == yaml.ScalarNode && n.n.Tag == "!!null":
			return node{}
		default:
			return n
		}
	}
	return node{}
}

func (n node) isNothing() bool { return n.n == nil }
func (n node) isScalar() bool  { return n.n != nil && n.n.Kind == yaml.ScalarNode }
func (n node) isMap() bool     { return n.n != nil && n.n.Kind == yaml.MappingNode }

// at returns the place for messages: "clouds.yaml:7: clouds.mine.auth".
func (n node) at() string {
	if n.n == nil {
		return n.file + ": " + n.path
	}
	return fmt.Sprintf("%s:%d: %s", n.file, n.n.Line, n.path)
}

// wrong returns the error for the node.
func (n node) wrong(format string, args ...any) *fail.Error {
	return fail.New(fail.Invalid, format, args...).At(n.at())
}

// member is one key of a mapping.
type member struct {
	key string
	node
}

// members lists a mapping's keys, those of merge keys first. The last of equal keys takes precedence.
func (n node) members() ([]member, error) { return n.membersTo(maxDepth) }

func (n node) membersTo(depth int) (out []member, err error) {
	if n.isNothing() {
		return nil, nil
	}
	if !n.isMap() || depth == 0 {
		return nil, n.wrong("this must be a mapping of names to values").Do("check the indentation below it")
	}
	var own []member
	for i := 0; i+1 < len(n.n.Content); i += 2 {
		if *n.left--; *n.left < 0 {
			return nil, n.wrong("the file has too many keys")
		}
		k, v := n.n.Content[i], node{n: n.n.Content[i+1], file: n.file, left: n.left}
		key := node{n: k, file: n.file}.resolved()
		if !key.isScalar() && !key.isNothing() {
			continue
		}
		name := k.Value
		if k.Kind == yaml.AliasNode {
			name = key.n.Value
		}
		v.path = strings.TrimPrefix(n.path+"."+name, ".")
		if k.Tag != "!!merge" {
			own = append(own, member{name, v.resolvedHere()})
			continue
		}
		more, err := v.resolvedHere().merged(depth - 1)
		if err != nil {
			return nil, err
		}
		for _, m := range more {
			m.path = strings.TrimPrefix(n.path+"."+m.key, ".")
			out = append(out, m)
		}
	}
	return append(out, own...), nil
}

// resolvedHere is resolved, but keeps the path of an absent node.
func (n node) resolvedHere() node {
	r := n.resolved()
	r.file, r.path, r.left = n.file, n.path, n.left
	return r
}

// merged lists the members that a merge key adds: those of one mapping, or of several, where the first takes precedence.
func (n node) merged(depth int) (out []member, err error) {
	if n.n == nil || n.n.Kind != yaml.SequenceNode {
		return n.membersTo(depth)
	}
	for i := len(n.n.Content) - 1; i >= 0; i-- {
		some, err := node{n: n.n.Content[i], file: n.file, path: n.path, left: n.left}.resolvedHere().membersTo(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// member returns the value of a key, or the zero node.
func (n node) member(key string) (node, bool, error) {
	all, err := n.members()
	there, out := false, node{file: n.file, path: n.path + "." + key, left: n.left}
	for _, m := range all {
		if m.key == key {
			there, out = true, m.node
		}
	}
	return out, there, err
}

// items lists a sequence.
func (n node) items() ([]node, error) {
	if n.isNothing() {
		return nil, nil
	}
	if n.n.Kind != yaml.SequenceNode {
		return nil, n.wrong("this must be a list")
	}
	var out []node
	for i, c := range n.n.Content {
		out = append(out, node{n: c, file: n.file, path: n.path + "[" + strconv.Itoa(i) + "]", left: n.left}.resolvedHere())
	}
	return out, nil
}
