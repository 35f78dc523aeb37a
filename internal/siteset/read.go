package siteset

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/ignore"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
)

// ReadDocument parses a document that the operator is about to use, with the contents of the files that its sets name, relative to dir. It returns the text
// with these contents, which is all that a store or a server needs. shown is the document's file in messages.
func ReadDocument(shown, dir string, data []byte) (*v1alpha1.Cluster, []byte, error) {
	doc, text, err := read(shown, dir, data)
	if err != nil {
		return doc, text, err
	}
	return doc, text, renders(shown, doc)
}

// Embed is ReadDocument for an untrusted document whose files are below dir: it renders nothing. The names of its files must not lead out of dir.
func Embed(shown, dir string, data []byte) ([]byte, error) {
	_, text, err := read(shown, dir, data)
	return text, err
}

// read does the work of ReadDocument, and renders nothing.
func read(shown, dir string, data []byte) (*v1alpha1.Cluster, []byte, error) {
	doc, err := validation.ParseFilledIn(shown, data)
	if err != nil {
		return doc, data, err
	}
	sources, charts, all := map[string]string{}, map[string]bool{}, 0
	for _, ch := range doc.Spec.Charts {
		charts[ch.Chart] = true
	}
	for _, p := range v1alpha1.SourceFiles(doc) {
		if doc.Sources[p] != "" { // a stored document: its files are elsewhere
			continue
		}
		at := p
		if !filepath.IsAbs(p) {
			at = filepath.Join(dir, p)
		}
		got, err := readSource(at)
		if err == nil && charts[p] && !isChart(at, got) {
			err = fail.New(fail.Invalid, "is no chart").Do("name the directory that holds Chart.yaml, or a .tgz")
		}
		if err == nil {
			sources[p], err = pack(got)
		}
		if err != nil {
			return nil, nil, fail.Wrap(fail.KindOf(err), err, "read %s", p).At(shown)
		}
		if all += len(sources[p]); all > maxAll {
			return nil, nil, fail.New(fail.Invalid, "the files of spec.manifests and spec.charts are larger than %d MiB together even when they are compressed", maxAll>>20).At(shown)
		}
	}
	if len(sources) == 0 {
		return doc, data, nil
	}
	maps.Copy(sources, doc.Sources)
	text, err := embed(data, sources)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "put the files of spec.manifests and spec.charts into the document").At(shown)
	}
	if doc, err = validation.ParseFilledIn(shown, text); err != nil {
		return nil, nil, err
	}
	return doc, text, nil
}

// renders reports the mistakes in the sets of a document.
func renders(shown string, doc *v1alpha1.Cluster) error {
	if _, err := All(doc, Cluster{Kubernetes: doc.Spec.Kubernetes.Version}); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "read the manifests and charts").At(shown)
	}
	return nil
}

// embed adds the contents of files to the text of a document and leaves the rest as it is.
func embed(data []byte, sources map[string]string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) != 1 {
		return nil, fail.New(fail.Invalid, "the document can't be extended")
	}
	for i := 0; i < len(root.Content[0].Content); i += 2 {
		if key := root.Content[0].Content[i]; key.Value == "sources" {
			return nil, fail.New(fail.Invalid, "line %d: sources lacks the content of some files", key.Line).Do("remove sources; Naupegos reads the files again")
		}
	}
	var b bytes.Buffer
	line := func(p string) string { return fmt.Sprintf("  %q: %q", p, sources[p]) }
	var lines []string
	for _, p := range slices.Sorted(maps.Keys(sources)) {
		lines = append(lines, line(p))
	}
	if root.Content[0].Style&yaml.FlowStyle != 0 { // JSON
		end := bytes.LastIndexByte(data, '}')
		before := bytes.TrimRight(data[:end], " \t\r\n")
		comma := ","
		if bytes.HasSuffix(before, []byte(",")) {
			comma = ""
		}
		fmt.Fprintf(&b, "%s%s\n\"sources\": {\n%s\n}\n%s", before, comma, strings.Join(lines, ",\n"), data[end:])
		return b.Bytes(), nil
	}
	text := bytes.TrimRight(data, " \t\r\n")
	text = bytes.TrimSuffix(text, []byte("\n..."))
	fmt.Fprintf(&b, "%s\n\n# The contents of the files that spec.manifests and spec.charts name.\nsources:\n%s\n", text, strings.Join(lines, "\n"))
	return b.Bytes(), nil
}

// ReadChart reads the files of a chart: a directory, or a .tgz.
func ReadChart(at string) (map[string][]byte, error) {
	fs, err := readSource(at)
	if err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "read the chart").At(at).
			Do("name a directory, a .tgz or an address oci://REGISTRY/PATH:VERSION; helm pull fetches the charts of other repositories")
	}
	return fs, nil
}

// UnpackChart reads the files of a packed chart.
func UnpackChart(packed []byte) (map[string][]byte, error) {
	return untar(bytes.NewReader(packed), "chart")
}

// isChart reports whether the files read at a path may be a chart: not a single file, even if it is Chart.yaml.
func isChart(at string, fs files) bool {
	_, alone := fs[filepath.Base(at)]
	return !alone || len(fs) > 1
}

// readSource reads a file, a directory or a packed chart of the operator.
func readSource(at string) (files, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "open it")
	}
	if info.IsDir() {
		return readDir(at)
	}
	if !info.Mode().IsRegular() {
		return nil, fail.New(fail.Invalid, "is neither a file nor a directory")
	}
	f, err := os.Open(at)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "open it")
	}
	defer f.Close()
	if strings.HasSuffix(at, ".tgz") || strings.HasSuffix(at, ".tar.gz") {
		return untar(f, "chart")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxUnpacked+1))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read it")
	}
	if len(data) > maxUnpacked {
		return nil, fail.New(fail.Invalid, "is larger than %d MiB", maxUnpacked>>20)
	}
	return files{filepath.Base(at): data}, nil
}

// readDir reads the files of a directory, without those that .helmignore leaves out. It follows links to files in the directory and refuses others.
func readDir(dir string) (files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "open it")
	}
	defer root.Close()
	rules := ignore.Empty()
	if data, err := root.ReadFile(".helmignore"); err == nil {
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read its .helmignore")
		}
	}
	rules.AddDefaults()
	out, left := files{}, maxUnpacked
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		info, err := root.Stat(p) // follows links, inside of the directory only
		if err != nil {
			return fail.Wrap(fail.Refused, err, "%s is a link that leads out of the directory, or to nothing", p)
		}
		switch {
		case d.IsDir() && (d.Name() == ".git" || rules.Ignore(p, info)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !info.Mode().IsRegular():
			return fail.New(fail.Refused, "%s is no file", p).Do("put the files themselves into the directory")
		case rules.Ignore(p, info) || strings.HasPrefix(d.Name(), "._"): // the latter are macOS's
			return nil
		case len(out) == maxFiles:
			return fail.New(fail.Invalid, "it holds more than %d files", maxFiles).Do("is this the right directory?")
		case info.Size() > int64(left):
			return fail.New(fail.Invalid, "it holds more than %d MiB", maxUnpacked>>20).Do("is this the right directory?")
		}
		data, err := root.ReadFile(p)
		left -= len(data)
		out[path.Clean(filepath.ToSlash(p))] = data
		return err
	})
	return out, err
}
