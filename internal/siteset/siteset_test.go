package siteset

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

const head = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n"

// write writes files below a new directory.
func write(t *testing.T, fs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range fs {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func object(kind, name string) string {
	return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\n"
}

func names(r chart.Rendered) (out []string) {
	for _, u := range r.Objects {
		out = append(out, manifest.Name(u))
	}
	return out
}

var bare = Cluster{Kubernetes: "v1.37.2"}

// TestReadDocument reads every kind of source into the document, which is then enough to render the sets: in YAML, in JSON, and a second time.
func TestReadDocument(t *testing.T) {
	dir := write(t, map[string]string{
		"one.yaml": object("ConfigMap", "one"), "web/a.yaml": object("ConfigMap", "a"), "web/sub/b.yml": object("ConfigMap", "b"), "web/README.md": "no: [",
		"base/kustomization.yaml": "namePrefix: p-\nresources: [c.yaml, below]\n", "base/c.yaml": object("ConfigMap", "c"),
		"base/below/kustomization.yaml": "configMapGenerator: [{name: g, literals: [\"url=http://example.org\"], options: {disableNameSuffixHash: true}}]\n",
		"chart/Chart.yaml":              "apiVersion: v2\nname: x\nversion: 1.0.0\n", "chart/templates/d.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\ndata: {v: \"{{ .Values.v }}\"}\n",
		"v.yaml": "v: file\n",
	})
	body := head + "  # a comment\n  manifests: [{name: one, file: one.yaml}, {name: web, dir: web}, {name: base, kustomize: base}, {name: in, inline: '" + strings.ReplaceAll(object("ConfigMap", "in"), "\n", "\n\n") +
		"'}]\n  charts: [{name: x, chart: chart, valuesFiles: [v.yaml]}]\n"
	asJSON := `{"apiVersion":"naupegos.dev/v1alpha1","kind":"Cluster","metadata":{"name":"demo"},"spec":{"provider":{"local":{}},"workers":[{"name":"general"}],` +
		`"manifests":[{"name":"one","file":"one.yaml"}]}}`
	for name, text := range map[string]string{"YAML": body, "JSON": asJSON, "end of document": strings.TrimSpace(body) + "\n...\n"} {
		_, whole, err := ReadDocument("cluster.yaml", dir, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		doc, again, err := ReadDocument("stored", "/nonexistent", whole) // as a server has it
		if err != nil || !bytes.Equal(whole, again) {
			t.Errorf("%s: the stored document: %v", name, err)
			continue
		}
		all, err := All(doc, bare)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := names(all["manifests.one"]); !slices.Equal(got, []string{"ConfigMap one"}) {
			t.Errorf("%s: %v", name, got)
		}
		if name == "JSON" {
			continue
		}
		if !strings.Contains(string(whole), "# a comment") {
			t.Error("the comments are gone")
		}
		for key, want := range map[string][]string{"manifests.web": {"ConfigMap a", "ConfigMap b"}, "manifests.base": {"ConfigMap p-c", "ConfigMap p-g"}, "charts.x": {"ConfigMap d"}, "manifests.in": {"ConfigMap in"}} {
			if got := names(all[key]); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %v, want %v", name, key, got, want)
			}
		}
		canonical := testkit.Value(doc.Marshal())(t)
		if _, err := validation.Parse("canonical", canonical); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSourcesRefused lists sources that are refused.
func TestSourcesRefused(t *testing.T) {
	dir := write(t, map[string]string{"d/a.yaml": object("ConfigMap", "a"), "outside.yaml": object("ConfigMap", "x"), "empty/README": "x"})
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "links"), 0o755))
	testkit.Must(t, os.Symlink("../outside.yaml", filepath.Join(dir, "links", "a.yaml")))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "not.tgz"), []byte("hello"), 0o600))
	archive := func(name string, headers ...tar.Header) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			testkit.Must(t, w.WriteHeader(&h))
			if h.Typeflag == tar.TypeReg {
				_, err := w.Write(make([]byte, h.Size))
				testkit.Must(t, err)
			}
		}
		testkit.Must(t, w.Close())
		testkit.Must(t, z.Close())
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600))
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}
	}
	archive("out.tgz", file("x/../../etc/passwd", 1))
	archive("abs.tgz", file("/etc/passwd", 1))
	archive("link.tgz", tar.Header{Name: "x/Chart.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
	archive("bomb.tgz", file("x/big", 40<<20))
	archive("flat.tgz", file("Chart.yaml", 1))
	var many []tar.Header
	for i := range maxFiles + 1 {
		many = append(many, file("x/"+strings.Repeat("a", i%200)+string(rune('a'+i/200)), 0))
	}
	archive("many.tgz", many...)
	for p, want := range map[string]string{
		"missing.yaml": "no such file", "links": "leads out", "not.tgz": "no compressed archive", "out.tgz": "leads out", "abs.tgz": "leads out", "link.tgz": "neither a file", "bomb.tgz": "MiB", "flat.tgz": "outside",
		"many.tgz": "files",
	} {
		_, _, err := ReadDocument("cluster.yaml", dir, []byte(head+"  charts: [{name: x, chart: "+p+"}]\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v, want %q", p, err, want)
		}
	}
	doc := testkit.Value(validation.Parse("cluster.yaml", []byte(head+"  manifests: [{name: x, dir: d}]\n")))(t)
	if _, err := All(doc, bare); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "spec.manifests[0]") {
		t.Errorf("a document without contents, as on a server: %v", err)
	}
}

// TestKustomizationsRefused lists kustomizations that would read something outside of their directory, or fetch it.
func TestKustomizationsRefused(t *testing.T) {
	for name, fs := range map[string]map[string]string{
		"parent":       {"k/kustomization.yaml": "resources: [../other]\n"},
		"git":          {"k/kustomization.yaml": "resources: [\"github.com/example/repo?ref=v1\"]\n"},
		"http":         {"k/kustomization.yaml": "resources: [\"https://127.0.0.1:1/x.yaml\"]\n"},
		"patch":        {"k/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: \"https://127.0.0.1:1/x.yaml\"}]\n", "k/a.yaml": object("ConfigMap", "a")},
		"file":         {"k/kustomization.yaml": "configMapGenerator: [{name: x, files: [\"p=/etc/passwd\"]}]\n"},
		"component":    {"k/kustomization.yaml": "components: [../x]\n"},
		"helm":         {"k/kustomization.yaml": "helmCharts: [{name: x, repo: \"https://127.0.0.1:1\"}]\n"},
		"generator":    {"k/kustomization.yaml": "generators: [g.yaml]\n", "k/g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: [\"https://127.0.0.1:1/x\"]\n"},
		"none":         {"k/a.yaml": object("ConfigMap", "a")},
		"syntax":       {"k/kustomization.yaml": "resources: [\n"},
		"missing file": {"k/kustomization.yaml": "resources: [gone.yaml]\n"},
	} {
		doc, _, err := ReadDocument("cluster.yaml", write(t, fs), []byte(head+"  manifests: [{name: x, kustomize: k}]\n"))
		if err == nil {
			_, err = All(doc, bare)
		}
		if err == nil || strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNeeds orders sets by the definitions and namespaces that they need, and refuses an object in two sets.
func TestNeeds(t *testing.T) {
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.x.org}\nspec: {group: x.org, names: {kind: Sail}, versions: [{name: v1}]}\n"
	inline := func(name, text string) v1alpha1.Manifests {
		return v1alpha1.Manifests{Name: name, Inline: text, Namespace: "default"}
	}
	doc := &v1alpha1.Cluster{}
	doc.Spec.Manifests = []v1alpha1.Manifests{
		inline("sail", "apiVersion: x.org/v1\nkind: Sail\nmetadata: {name: jib, namespace: sea}\n"), inline("crd", crd), inline("ns", object("Namespace", "sea")),
	}
	all := testkit.Value(All(doc, bare))(t)
	if got := Needs(Of(doc), all); !slices.Equal(got["manifests.sail"], []string{"manifests.crd", "manifests.ns"}) || len(got) != 1 {
		t.Errorf("%v", got)
	}
	doc.Spec.Manifests = append(doc.Spec.Manifests, inline("again", object("Namespace", "sea")))
	if _, err := All(doc, bare); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "Namespace sea belongs to manifests ns") {
		t.Errorf("%v", err)
	}
}

// TestMakers: of sets that share a namespace, the first that needs none of the others makes it, unless it is there or an object of a set.
func TestMakers(t *testing.T) {
	sets := []*Set{{Key: "a", Namespace: "mon"}, {Key: "b", Namespace: "mon"}, {Key: "c", Namespace: "mon"}, {Key: "d", Namespace: "there"}, {Key: "e", Namespace: "there"}, {Key: "f", Namespace: "kube-system"}, {Key: "g", Namespace: "kube-system"}}
	missing := func(namespace string) bool { return namespace != "there" }
	for _, c := range []struct {
		needs map[string][]string
		want  string
	}{
		{nil, "map[b:a c:a]"},
		{map[string][]string{"a": {"c"}}, "map[a:b c:b]"},
		{map[string][]string{"a": {"c"}, "b": {"a"}}, "map[a:c b:c]"},
	} {
		if got := fmt.Sprint(Makers(sets, nil, c.needs, missing)); got != c.want {
			t.Errorf("needs %v: %s, want %s", c.needs, got, c.want)
		}
	}
	held := map[string]chart.Rendered{"b": {Objects: []*unstructured.Unstructured{{Object: map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "mon"}}}}}}
	if got := Makers(sets, held, nil, missing); len(got) != 0 {
		t.Errorf("a set has the namespace: %v", got)
	}
}
