package images

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// Mention is an image in a manifest.
type Mention struct {
	Reference
	File  string
	Line  int    // 0: the object is generated, not from a file
	Field string // "spec.template.spec.containers[0].image"
}

// Where returns file, line and field.
func (m Mention) Where() string {
	if m.Line == 0 {
		return m.File + ": " + m.Field
	}
	return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Field)
}

// Scanned is the result of a scan.
type Scanned struct {
	Images []Mention
	// Unclear are strings that look like images in fields that may contain anything: arguments, environment variables.
	Unclear []Mention
}

// Has reports whether an image was found, with any digest.
func (s *Scanned) Has(r Reference) bool {
	return slices.ContainsFunc(s.Images, func(m Mention) bool { return m.Name == r.Name && m.Tag == r.Tag })
}

const (
	maxFile  = 32 << 20 // bytes
	maxNodes = 2 << 20  // of the documents of one file; aliases count each time
)

// ScanPath finds the images in a manifest, or in all manifests of a directory and those below it.
func ScanPath(path string) (Scanned, error) {
	var out Scanned
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fail.Wrap(fail.Invalid, err, "read manifests").At(file)
		case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case file != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			return nil
		}
		f, err := os.Open(file)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "read manifests").At(file)
		}
		defer f.Close() // only read
		return out.Scan(file, f)
	})
	return out, err
}

// Scan finds the images in the objects of one file.
func (s *Scanned) Scan(file string, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read manifests").At(file)
	}
	if len(data) > maxFile {
		return fail.New(fail.Invalid, "a manifest is larger than %d MiB", maxFile>>20).At(file)
	}
	return s.documents(&walk{out: s, file: file}, data)
}

// ScanMade finds the images in a generated object. where names it in messages.
func (s *Scanned) ScanMade(where string, object []byte) error {
	return s.documents(&walk{out: s, file: where, made: true}, object)
}

func (s *Scanned) documents(w *walk, data []byte) error {
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fail.Wrap(fail.Invalid, err, "read manifests").At(w.file).Do("templates are rendered first: naupegos bundle add chart, kubectl kustomize")
		}
		if err := w.document(&doc); err != nil {
			return err
		}
	}
}

// walk visits the objects of a file.
type walk struct {
	out   *Scanned
	file  string
	made  bool // generated: line numbers mean nothing
	nodes int
}

func (w *walk) document(doc *yaml.Node) error {
	if len(doc.Content) == 0 {
		return nil
	}
	root := resolved(doc.Content[0])
	if kind := valueOf(root, "kind"); kind != nil && kind.Value == "Kustomization" && valueOf(root, "images") != nil {
		return fail.New(fail.Refused, "a kustomization changes the names of images").At(fmt.Sprintf("%s:%d", w.file, kind.Line)).
			Do("build it first: kubectl kustomize DIR | naupegos bundle add manifest -")
	}
	return w.visit("", "", root)
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// valueOf returns the value of a key; nil if the node has no such key.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

// visit checks a value; path is its place, and key the name of its field.
func (w *walk) visit(path, key string, n *yaml.Node) error {
	if w.nodes++; w.nodes > maxNodes {
		return fail.New(fail.Invalid, "a manifest has more than %d values", maxNodes).At(w.file)
	}
	switch n = resolved(n); n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!str" {
			return w.text(path, key, n)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if err := w.visit(fmt.Sprintf("%s[%d]", path, i), key, item); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if done, err := w.parts(path, key, n); done || err != nil {
			return err
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := w.visit(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i].Value, n.Content[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	imageKey = regexp.MustCompile(`^(image|imageName|[a-z][A-Za-z0-9]*Image|[a-z][A-Za-z0-9]*ImageName)$`)
	// relatedImage matches the variables that tell operators which images to start.
	relatedImage = regexp.MustCompile(`^RELATED_IMAGE_|_IMAGE$`)
	// likeImage matches a string that is almost certainly an image: a registry, a path, and a tag or a digest.
	likeImage = regexp.MustCompile(`^(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::[0-9]+)?/[a-z0-9][a-z0-9._/-]*(?::[\w][\w.-]*(?:@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$`)
	// imageFlag matches an argument whose name says that its value is an image.
	imageFlag = regexp.MustCompile(`^--?(?:[a-z][a-z0-9-]*)?image=["']?([^"'=,\s]+)["']?$`)
)

// text looks at a string.
func (w *walk) text(path, key string, n *yaml.Node) error {
	if imageKey.MatchString(key) {
		if strings.Contains(n.Value, "://") || n.Value == "" { // a picture
			return nil
		}
		r, err := ParseReference(n.Value)
		if err == nil {
			w.found(path, n.Line, r)
			return nil
		}
		if key != "image" || !strings.Contains(strings.ToLower(path), "containers[") { // such a field of another kind may contain anything
			w.unclear(path, n.Line, n.Value)
			return nil
		}
		return at(err, w.mention(path, n.Line, Reference{}))
	}
	if m := imageFlag.FindStringSubmatch(n.Value); m != nil {
		if _, err := ParseReference(m[1]); err == nil {
			w.unclear(path, n.Line, m[1])
			return nil
		}
	}
	for word := range strings.FieldsFuncSeq(n.Value, func(r rune) bool { return strings.ContainsRune("=,\"'", r) || unicode.IsSpace(r) }) {
		if likeImage.MatchString(word) {
			w.unclear(path, n.Line, word)
		}
	}
	return nil
}

// at adds the place to an error.
func at(err error, m Mention) error {
	var e *fail.Error
	if errors.As(err, &e) {
		return e.At(m.Where())
	}
	return err
}

func (w *walk) found(path string, line int, r Reference) {
	w.out.Images = append(w.out.Images, w.mention(path, line, r))
}

func (w *walk) unclear(path string, line int, text string) {
	w.out.Unclear = append(w.out.Unclear, w.mention(path, line, Reference{Text: text}))
}

func (w *walk) mention(path string, line int, r Reference) Mention {
	if w.made {
		line = 0
	}
	return Mention{Reference: r, File: w.file, Line: line, Field: path}
}

// parts checks a mapping that describes an image: repository and tag, the reference of a volume, a variable of an operator.
func (w *walk) parts(path, key string, n *yaml.Node) (done bool, _ error) {
	if name, value := valueOf(n, "name"), valueOf(n, "value"); name != nil && value != nil && relatedImage.MatchString(name.Value) && value.Value != "" {
		if r, err := ParseReference(value.Value); err == nil {
			w.found(path+".value", value.Line, r)
			return true, nil
		}
		return false, nil
	}
	if !imageKey.MatchString(key) {
		return false, nil
	}
	if ref := valueOf(n, "reference"); ref != nil && ref.Value != "" {
		r, err := ParseReference(ref.Value)
		if err != nil {
			return false, at(err, w.mention(path+".reference", ref.Line, Reference{}))
		}
		w.found(path+".reference", ref.Line, r)
		return true, nil
	}
	repository := valueOf(n, "repository")
	if repository == nil || repository.Kind != yaml.ScalarNode || repository.Value == "" {
		return false, nil
	}
	text := repository.Value
	for _, part := range []struct{ key, before, after string }{{"registry", "", "/"}, {"tag", ":", ""}, {"digest", "@", ""}} {
		v := valueOf(n, part.key)
		switch {
		case v == nil || v.Value == "" || v.Tag == "!!null":
		case part.before == "":
			text = v.Value + part.after + text
		default:
			text += part.before + v.Value
		}
	}
	r, err := ParseReference(text)
	if err != nil {
		w.unclear(path, repository.Line, text)
		return true, nil
	}
	w.found(path, repository.Line, r)
	return true, nil
}
