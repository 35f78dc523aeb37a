// Package chart renders Helm charts without a cluster: lookups find nothing, there is no network, and no clock changes the result.
//
// It is pure: files and values in, objects and hooks out.
package chart

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Release describes the release that a chart is rendered for.
type Release struct {
	Name, Namespace string
	Version         string         // required version of the chart; empty: any
	Values          map[string]any // override ValuesFiles
	ValuesFiles     [][]byte
	Kubernetes      string   // the cluster's release, "v1.37.2"
	APIs            []string // "apps/v1" and "apps/v1/Deployment" of all kinds that the cluster serves; nil: the kinds of a bare cluster
	limits          limits
}

// Rendered is a rendered chart.
type Rendered struct {
	Objects       []*unstructured.Unstructured // with the definitions of crds/
	Before, After []Hook                       // in their order
	LookedUp      []string                     // objects of the cluster that templates looked up, and did not get: "Secret shop/admin"
	Unrun         []string                     // hooks with no place in a plan: "Job shop/uninstall (pre-delete)"
}

// Render renders the chart with these files, by path below the chart's directory. An error names the file and line of the chart.
func Render(files map[string][]byte, r Release) (Rendered, error) {
	c, err := load(files)
	if err != nil {
		return Rendered{}, err
	}
	if err := check(c, r); err != nil {
		return Rendered{}, err
	}
	values, err := r.values()
	if err != nil {
		return Rendered{}, err
	}
	var asked []string
	texts, err := render(c, values, r, findNothing(&asked), false)
	if err != nil {
		return Rendered{}, err
	}
	again, err := render(c, values, r, findNothing(&asked), true)
	if err != nil {
		return Rendered{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if texts[name] != again[name] && !same(name, texts[name], again[name]) {
			e := fail.New(fail.Refused, "the template makes something else each time (a random value, a new certificate, or the time)").At(name)
			if len(asked) > 0 {
				e.What += "; the chart looks up " + strings.Join(asked, ", ") + ", but is rendered without access to the cluster"
			}
			return Rendered{}, e.Do("set the value that the chart would generate, so that a plan shows what will be applied")
		}
	}
	out, err := collect(c, texts)
	out.LookedUp = asked
	return out, err
}

// load reads a chart and the charts in it.
func load(files map[string][]byte) (*v2.Chart, error) {
	var list []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, &archive.BufferedFile{Name: name, Data: files[name]})
	}
	if files["Chart.yaml"] == nil {
		return nil, fail.New(fail.Invalid, "the chart has no Chart.yaml").Do("name the directory that holds it")
	}
	c, err := loader.LoadFiles(list)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the chart")
	}
	if err := c.Validate(); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the chart").At("Chart.yaml")
	}
	return c, nil
}

// check refuses a chart that does not fit the release, or lacks parts.
func check(c *v2.Chart, r Release) error {
	m := c.Metadata
	if r.Version != "" && strings.TrimPrefix(r.Version, "v") != strings.TrimPrefix(m.Version, "v") {
		return fail.New(fail.Invalid, "the chart %s has version %s, not %s", m.Name, m.Version, r.Version).At("Chart.yaml")
	}
	if m.Type == "library" {
		return fail.New(fail.Invalid, "the chart %s is a library for other charts", m.Name).At("Chart.yaml")
	}
	if m.KubeVersion != "" && !chartutil.IsCompatibleRange(m.KubeVersion, r.Kubernetes) {
		return fail.New(fail.Invalid, "the chart %s is for Kubernetes %s, and the cluster's release is %s", m.Name, m.KubeVersion, r.Kubernetes).At("Chart.yaml")
	}
	var missing []string
	for _, d := range m.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(in *v2.Chart) bool { return in.Name() == d.Name }) {
			missing = append(missing, d.Name)
		}
	}
	if len(missing) > 0 {
		return fail.New(fail.Invalid, "the chart %s lacks in charts/: %s", m.Name, strings.Join(missing, ", ")).At("Chart.yaml").Do("helm dependency build, then apply again")
	}
	return nil
}

// values merges the files and the document's own values, with the types that Helm gives them.
func (r Release) values() (map[string]any, error) {
	all := map[string]any{}
	for i, data := range r.ValuesFiles {
		v, err := ReadValues(data)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the values file %d", i+1)
		}
		all = loader.MergeMaps(all, v)
	}
	data, err := yaml.Marshal(r.Values)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the values")
	}
	own, err := common.ReadValues(data)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the values")
	}
	return loader.MergeMaps(all, own), nil
}

// ReadValues reads a file of values. Helm would read the first of several documents alone.
func ReadValues(data []byte) (map[string]any, error) {
	docs, err := manifest.Documents(data)
	if err != nil {
		return nil, err
	}
	said := 0
	for _, doc := range docs {
		if raw, err := yaml.YAMLToJSON(doc); err != nil || string(raw) != "null" {
			said++
		}
	}
	if said > 1 {
		return nil, fail.New(fail.Invalid, "it holds %d YAML documents", said).Do("put all values into one")
	}
	return common.ReadValues(bytes.Join(docs, []byte("\n")))
}

// render executes the templates of a chart, with the clock and the luck of now or of a later time. It works on a copy of the values: Helm changes them.
func render(c *v2.Chart, values map[string]any, r Release, lookup lookup, later bool) (map[string]string, error) {
	data, err := yaml.Marshal(values)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the values")
	}
	vals, err := common.ReadValues(data)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the values")
	}
	if err := chartutil.ProcessDependencies(c, vals); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the charts in the chart")
	}
	caps, err := r.capabilities()
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValuesWithSchemaValidation(c, vals, common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}, caps, true)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "merge the values")
	}
	if merged, err := all.Table("Values"); err == nil {
		if err := validate(c, merged, c.Name()); err != nil {
			return nil, err
		}
	}
	e := engine.Engine{CustomTemplateFuncs: funcs(lookup, later)}
	return r.limits.keep(func() (map[string]string, error) {
		texts, err := e.Render(c, all)
		if err != nil {
			return nil, located(err)
		}
		return texts, nil
	})
}

// lookup is Helm's function that reads an object of the cluster.
type lookup func(version, kind, namespace, name string) (map[string]any, error)

// findNothing answers lookups as helm template does, and notes what they ask for.
func findNothing(asked *[]string) lookup {
	return func(_, kind, namespace, name string) (map[string]any, error) {
		if object := strings.TrimSuffix(kind+" "+manifest.Key(namespace, name), " "); !slices.Contains(*asked, object) {
			*asked = append(*asked, object)
		}
		return map[string]any{}, nil
	}
}

// capabilities describes the cluster to templates.
func (r Release) capabilities() (*common.Capabilities, error) {
	v, err := common.ParseKubeVersion(r.Kubernetes)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the release %q", r.Kubernetes)
	}
	caps := common.DefaultCapabilities.Copy()
	caps.KubeVersion = *v
	if caps.APIVersions = r.APIs; r.APIs == nil {
		caps.APIVersions = BareAPIs()
	}
	return caps, nil
}

// place matches the file and line that Helm names in an error of a template.
var place = regexp.MustCompile(`\(?([\w.-]+/[^\s:()]+:\d+(?::\d+)?)\)?`)

// located puts the innermost place of a template's error in front. Helm writes one place a line, the outermost first.
func located(err error) error {
	text := strings.TrimSpace(err.Error())
	places := place.FindAllStringSubmatch(text, -1)
	if len(places) == 0 {
		return fail.New(fail.Invalid, "render the chart: %s", oneLine(text))
	}
	lines := strings.Split(text, "\n")
	what := strings.TrimSpace(lines[len(lines)-1])
	if len(lines) == 1 {
		what = place.ReplaceAllString(what, "")
		what = strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(what, "parse error at :", "")), "template: ")
	}
	return fail.New(fail.Invalid, "render the chart: %s", oneLine(what)).At(places[len(places)-1][1])
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// BareAPIs lists the versions and kinds of a cluster without definitions: the API serves no alpha and beta versions by itself.
func BareAPIs() []string {
	out := []string{"apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1/APIService"}
	known := map[string]bool{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		if stable.MatchString(kind.Version) && !strings.HasSuffix(kind.Kind, "List") && !strings.HasSuffix(kind.Kind, "Options") && kind.Kind != "WatchEvent" {
			version := kind.GroupVersion().String()
			known[version], known[version+"/"+kind.Kind] = true, true
		}
	}
	return slices.AppendSeq(out, maps.Keys(known))
}

// stable matches versions that the API serves by itself.
var stable = regexp.MustCompile(`^v[0-9]+$`)

// collect parses the rendered files into objects and hooks.
func collect(c *v2.Chart, texts map[string]string) (Rendered, error) {
	var out Rendered
	defined := map[string]bool{}
	for _, crd := range c.CRDObjects() {
		objects, err := parse(crd.Filename, crd.File.Data)
		if err != nil {
			return out, err
		}
		for _, u := range objects { // as with Helm, the first one counts: charts in the chart may define the same kinds
			if id := manifest.Name(u); !defined[id] {
				defined[id] = true
				out.Objects = append(out.Objects, u)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if isText(name) {
			continue
		}
		objects, err := parse(name, []byte(texts[name]))
		if err != nil {
			return out, err
		}
		for _, u := range objects {
			if u.GetAnnotations()[annotationHook] == "" {
				out.Objects = append(out.Objects, u)
			} else if err := out.addHook(name, u); err != nil {
				return out, err
			}
		}
	}
	sortHooks(out.Before)
	sortHooks(out.After)
	manifest.Sort(out.Objects)
	return out, nil
}

// isText reports whether a rendered file holds no objects.
func isText(name string) bool {
	return path.Base(name) == "NOTES.txt" || strings.HasPrefix(path.Base(name), "_")
}

// parse reads the objects of a rendered file as Helm does, which takes the last of two equal keys. It leaves out what only tests make.
func parse(name string, text []byte) ([]*unstructured.Unstructured, error) {
	docs, err := documents(name, text)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, raw := range docs {
		var head struct {
			Metadata struct {
				Annotations map[string]any `json:"annotations"`
			} `json:"metadata"`
		}
		if json.Unmarshal(raw, &head) == nil {
			if events, _ := head.Metadata.Annotations[annotationHook].(string); onlyTest(events) {
				continue
			}
		}
		objects, err := manifest.Parse(raw)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the rendered template").At(name)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// separator is Helm's: charts have objects on the line of ---.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// documents returns the documents of a rendered file as JSON, without empty ones.
func documents(name string, text []byte) (out [][]byte, err error) {
	docs, err := manifest.Documents(separator.ReplaceAll(text, []byte("---\n")))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the rendered template").At(name)
	}
	for _, doc := range docs {
		raw, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the rendered template").At(name)
		}
		if s := string(bytes.TrimSpace(raw)); s != "null" && s != "{}" {
			out = append(out, raw)
		}
	}
	return out, nil
}
