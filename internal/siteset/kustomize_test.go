package siteset

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// built renders the kustomization in the directory k of these files, as a server does.
func built(t *testing.T, fs map[string]string) ([]string, error) {
	t.Helper()
	doc, _, err := ReadDocument("cluster.yaml", write(t, fs), []byte(head+"  manifests: [{name: x, kustomize: k}]\n"))
	if err != nil {
		return nil, err
	}
	all, err := All(doc, bare)
	return names(all["manifests.x"]), err
}

// TestNothingIsFetched: kustomize's loader would fetch each of these from a real server, or run git, which would reach it too.
func TestNothingIsFetched(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(object("ConfigMap", "fetched")))
	}))
	defer server.Close()
	bin := t.TempDir()
	ran := filepath.Join(bin, "ran")
	testkit.Must(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\ntouch "+ran+"\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	url, host := server.URL+"/x.yaml", strings.TrimPrefix(server.URL, "http://")
	generator := "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nname: g\nfiles: [\"k=" + url + "\"]\n"
	for name, fs := range map[string]map[string]string{
		"resources":             {"": "resources: [\"" + url + "\"]\n"},
		"another case":          {"": "Resources: [\"" + url + "\"]\n"},
		"another case, deep":    {"": "ConfigMapGenerator: [{name: a, Files: [\"k=" + url + "\"]}]\n"},
		"scheme in capitals":    {"": "resources: [\"" + strings.Replace(url, "http", "HTTP", 1) + "\"]\n"},
		"alias":                 {"": "commonAnnotations: {a: &u \"" + url + "\"}\nresources: [*u]\n"},
		"merged":                {"": "x: &x {resources: [\"" + url + "\"]}\n<<: *x\n"},
		"JSON":                  {"": `{"resources": ["` + strings.ReplaceAll(url, "/", `\u002f`) + `"]}`},
		"tagged":                {"": "resources: [!!binary \"aHR0cDovLzEyNy4wLjAuMS8=\", !!str \"" + url + "\"]\n"},
		"generator":             {"": "generators: [g.txt]\n", "g.txt": generator},
		"generator in place":    {"": "generators:\n- |\n  " + strings.ReplaceAll(generator, "\n", "\n  ") + "\n"},
		"transformer in place":  {"": "transformers:\n- |\n  " + strings.ReplaceAll(generator, "\n", "\n  ") + "\n"},
		"validator":             {"": "validators: [g.yaml]\n", "g.yaml": generator},
		"files":                 {"": "configMapGenerator: [{name: a, files: [\"" + url + "\"]}]\n"},
		"secret's files":        {"": "secretGenerator: [{name: a, files: [\"k=" + url + "\"]}]\n"},
		"envs":                  {"": "configMapGenerator: [{name: a, envs: [\"" + url + "\"]}]\n"},
		"env":                   {"": "configMapGenerator: [{name: a, env: \"" + url + "\"}]\n"},
		"crds":                  {"": "crds: [\"" + url + "\"]\n"},
		"configurations":        {"": "configurations: [\"" + url + "\"]\n"},
		"openapi":               {"": "openapi: {path: \"" + url + "\"}\n"},
		"replacements":          {"": "replacements: [{path: \"" + url + "\"}]\n"},
		"patches":               {"": "patches: [{path: \"" + url + "\"}]\n"},
		"patchesJson6902":       {"": "patchesJson6902: [{path: \"" + url + "\", target: {kind: ConfigMap, name: a, version: v1}}]\n"},
		"patchesStrategicMerge": {"": "patchesStrategicMerge: [\"" + url + "\"]\n"},
		"bases":                 {"": "bases: [\"" + url + "\"]\n"},
		"components":            {"": "components: [\"" + url + "\"]\n"},
		"git over HTTP":         {"": "resources: [\"" + server.URL + "/org/repo.git//dir?ref=main\"]\n"},
		"git::":                 {"": "resources: [\"git::" + server.URL + "/org/repo\"]\n"},
		"git over SSH":          {"": "resources: [\"git@" + host + ":org/repo\"]\n"},
		"ssh":                   {"": "resources: [\"ssh://git@" + host + "/org/repo\"]\n"},
		"file":                  {"": "resources: [\"file:///etc\"]\n"},
		"a host's short form":   {"": "resources: [github.com/org/repo]\n"},
		"below, in another one": {"": "resources: [below]\n", "below/kustomization.yml": "resources: [\"" + url + "\"]\n"},
		"Helm":                  {"": "helmCharts: [{name: x, repo: \"" + server.URL + "\"}]\n"},
		"Helm's globals":        {"": "helmGlobals: {chartHome: x}\n"},
		"another kind":          {"": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nresources: [\"" + url + "\"]\n"},
	} {
		tree := map[string]string{"k/a.yaml": object("ConfigMap", "a")}
		for file, text := range fs {
			if file == "" {
				file = "kustomization.yaml"
			}
			tree["k/"+file] = text
		}
		got, err := built(t, tree)
		if err == nil {
			t.Errorf("%s: gave %q", name, got)
		}
		if n := asked.Swap(0); n > 0 {
			t.Errorf("%s: the server was asked %d times", name, n)
		}
		if os.Remove(ran) == nil {
			t.Errorf("%s: git ran", name)
		}
	}
}

// TestLocalNames: files and directories that are named like repositories are local, and every field still works.
func TestLocalNames(t *testing.T) {
	got, err := built(t, map[string]string{
		"k/kustomization.yaml": "resources: [github.com/org/repo, ./a.yaml, sub/../b.yaml, .hidden]\ncomponents: [c]\nnamePrefix: p-\n" +
			"configMapGenerator: [{name: g, files: [f.txt, key=f.txt], envs: [e.env], options: {disableNameSuffixHash: true}}]\n" +
			"patches: [{path: p.yaml}, {patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"x\": \"y\"}}]', target: {kind: ConfigMap, name: b}}]\n" +
			"patchesStrategicMerge: [\"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\ndata: {m: \\\"1\\\"}\\n\"]\n" +
			"replacements: [{path: r.yaml}]\n",
		"k/github.com/org/repo/kustomization.yaml": "resources: [../../../shared]\n",
		"k/shared/Kustomization":                   "resources: [d.yaml]\n", "k/shared/d.yaml": object("ConfigMap", "d"),
		"k/a.yaml": object("ConfigMap", "a"), "k/b.yaml": object("ConfigMap", "b"), "k/sub/x": "", "k/f.txt": "* text *\n", "k/e.env": "A=b\n",
		"k/.hidden/kustomization.yaml": "resources: [h.yaml]\n", "k/.hidden/h.yaml": object("ConfigMap", "h"),
		"k/c/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nresources: [c.yaml]\n", "k/c/c.yaml": object("ConfigMap", "c"),
		"k/p.yaml": object("ConfigMap", "a") + "data: {v: w}\n",
		"k/r.yaml": "source: {kind: ConfigMap, name: a, fieldPath: metadata.name}\ntargets: [{select: {kind: ConfigMap, name: b}, fieldPaths: [metadata.annotations.from], options: {create: true}}]\n",
		// Not referred to, so not read.
		"k/other/kustomization.yaml": "resources: [\"http://127.0.0.1:1/\"]\n",
	})
	want := []string{"ConfigMap p-a", "ConfigMap p-b", "ConfigMap p-c", "ConfigMap p-d", "ConfigMap p-g", "ConfigMap p-h"}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOverlay: an overlay names the base beside it; files may have a colon in their names.
func TestOverlay(t *testing.T) {
	fs := map[string]string{
		"deploy/overlays/prod/kustomization.yaml": "resources: [../../base, a:b.yaml]\nnamePrefix: prod-\n", "deploy/overlays/prod/a:b.yaml": object("ConfigMap", "ab"),
		"deploy/base/kustomization.yaml": "resources: [c.yaml]\n", "deploy/base/c.yaml": object("ConfigMap", "c"),
	}
	for spelling, want := range map[string]string{
		"deploy//overlays/prod": "", "./deploy//overlays/prod/": "", "deploy/overlays/prod": "TOP//DIRECTORY", "deploy": "TOP//DIRECTORY", "deploy//overlays": "overlays", "deploy//../x": "x", "deploy//overlays/prod//..": "..",
	} {
		doc, _, err := ReadDocument("cluster.yaml", write(t, fs), []byte(head+"  manifests: [{name: x, kustomize: "+spelling+"}]\n"))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", spelling, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", spelling, err)
			continue
		}
		got := names(testkit.Value(All(doc, bare))(t)["manifests.x"])
		if slices.Sort(got); !slices.Equal(got, []string{"ConfigMap prod-ab", "ConfigMap prod-c"}) {
			t.Errorf("%s: %v", spelling, got)
		}
	}
}

// TestKustomizationsAreBounded: small kustomizations that would read, or write out, without end.
func TestKustomizationsAreBounded(t *testing.T) {
	nested := map[string]string{"k/a.yaml": object("ConfigMap", "a")}
	at := "k"
	for range 8 { // each level refers to the next one 8 times, under different names: 8^8 builds
		list := ""
		for i := range 8 {
			list += fmt.Sprintf("p%d, ", i)
			nested[fmt.Sprintf("%s/p%d/kustomization.yaml", at, i)] = fmt.Sprintf("namePrefix: p%d-\nresources: [../next]\n", i)
		}
		nested[at+"/kustomization.yaml"] = "resources: [" + list + "]\n"
		at += "/next"
	}
	nested[at+"/kustomization.yaml"] = "resources: [a.yaml]\n"
	nested[at+"/a.yaml"] = object("ConfigMap", "a")
	laughs := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
	for i := range 8 {
		laughs += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i), 10), ", "))
	}
	for name, c := range map[string]struct {
		fs   map[string]string
		want string
	}{
		"nested":              {nested, "reads"},
		"itself":              {map[string]string{"k/kustomization.yaml": "resources: [a]\n", "k/a/kustomization.yaml": "resources: [../b]\n", "k/b/kustomization.yaml": "resources: [../a]\n"}, "refers to itself"},
		"aliases":             {map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": laughs}, "aliases"},
		"aliases in a patch":  {map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p}]\n", "k/a.yaml": object("ConfigMap", "a"), "k/p": laughs}, "aliases"},
		"aliases of its own":  {map[string]string{"k/kustomization.yaml": strings.TrimPrefix(laughs, "apiVersion: v1\nkind: ConfigMap\n")}, "aliases"},
		"an alias of itself":  {map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": "a: &a [*a]\n"}, "a"},
		"patch in its place":  {map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(laughs, "\n", "\n    ") + "\n", "k/a.yaml": object("ConfigMap", "a")}, "aliases"},
		"unknown field":       {map[string]string{"k/kustomization.yaml": "resourcez: [a.yaml]\n", "k/a.yaml": object("ConfigMap", "a")}, "resourcez"},
		"two kustomizations":  {map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\n", "k/kustomization.yml": "resources: [a.yaml]\n", "k/a.yaml": object("ConfigMap", "a")}, "multiple"},
		"line of what's lost": {map[string]string{"k/kustomization.yaml": "resources:\n- a.yaml\n- gone.yaml\n", "k/a.yaml": object("ConfigMap", "a")}, `line 3: "gone.yaml"`},
	} {
		if got, err := built(t, c.fs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestFieldsOfKustomizations: a new field of kustomize is refused until this package knows whether it names files.
func TestFieldsOfKustomizations(t *testing.T) {
	known := strings.Fields("TypeMeta MetaData OpenAPI NamePrefix NameSuffix Namespace CommonLabels Labels CommonAnnotations PatchesStrategicMerge PatchesJson6902 Patches Images ImageTags " +
		"Replacements Replicas Vars SortOptions Resources Components Crds Bases ConfigMapGenerator SecretGenerator HelmGlobals HelmCharts HelmChartInflationGenerator GeneratorOptions " +
		"Configurations Generators Transformers Validators BuildMetadata")
	for f := range reflect.TypeFor[types.Kustomization]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("the field %s of kustomizations is new: does it name files?", f.Name)
		}
	}
	for f := range reflect.TypeFor[types.KvPairSources]().Fields() {
		if !slices.Contains([]string{"LiteralSources", "FileSources", "EnvSources", "EnvSource"}, f.Name) {
			t.Errorf("the field %s of generators is new: does it name files?", f.Name)
		}
	}
}

// TestRefusedByName: the refusal of a server names the file and what to do.
func TestRefusedByName(t *testing.T) {
	dir := write(t, map[string]string{"k/kustomization.yaml": "generators: [g.yaml]\n", "k/g.yaml": "kind: X\n"})
	_, _, err := ReadDocument("cluster.yaml", dir, []byte(head+"  manifests: [{name: x, kustomize: k}]\n"))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "kustomization.yaml") || !strings.Contains(err.Error(), "generators are not supported") {
		t.Error(err)
	}
}
