package siteset

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// shape is something that people wrote and another tool got wrong.
type shape struct {
	fs   map[string]string // besides Chart.yaml of the chart "c", if there is c/templates
	set  string            // the set "x"; empty: chart c, or file m.yaml
	want string            // its objects
	data string            // data of its first object
	fail string            // part of the error instead
	real Cluster           // instead of a bare one
}

const shapeChart = "apiVersion: v2\nname: c\nversion: 1.0.0\n"

func inFile(text string) map[string]string { return map[string]string{"m.yaml": text} }

// inChart returns a chart c with one template, and further files by pairs of name and text.
func inChart(template string, more ...string) map[string]string {
	out := map[string]string{"c/templates/t.yaml": template}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// keyed is a ConfigMap v, with the value of k.
func keyed(k string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v}\ndata:\n  k: " + k + "\n"
}

const (
	sub    = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"
	crdOf  = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.x.org}\nspec: {group: x.org, names: {kind: Sail, plural: sails}, scope: Namespaced, versions: [{name: v1, served: true, storage: true}]}\n"
	isJob  = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  annotations: {%s}\n"
	valueK = "{{ .Values.k | quote }}"
)

func hooked(annotations string) string { return fmt.Sprintf(isJob, annotations) + "---\n" + keyed("x") }

// streams are forms of files of manifests.
func streams() map[string]shape {
	a, b := object("ConfigMap", "a"), object("ConfigMap", "b")
	two := "ConfigMap a, ConfigMap b"
	return map[string]shape{
		"empty documents":                     {fs: inFile("---\n\n---\n# none\n---\n" + a + "---\n---\n" + b + "---\n"), want: two},
		"text after a separator":              {fs: inFile(a + "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"), want: two},
		"text after the first separator":      {fs: inFile("--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" + b), want: two},
		"end of a document without separator": {fs: inFile(a + "...\n" + b), want: two},
		"end with a comment":                  {fs: inFile(a + "... # end\n---\n" + b), want: two},
		"directive":                           {fs: inFile("%YAML 1.2\n---\n" + a + "...\n%YAML 1.2\n---\n" + b), want: two},
		"separator with blanks":               {fs: inFile(a + "---   \n" + b), want: two},
		"separator with a tab":                {fs: inFile(a + "---\t\n" + b), want: two},
		"separator with a comment":            {fs: inFile(a + "---\t# x\n" + b), want: two},
		"separator in a block scalar":         {fs: inFile(keyed("|\n    ---\n    x: y\n    ---\n    ...")), want: "ConfigMap v", data: "map[k:---\nx: y\n---\n...\n]"},
		"a key that begins with dashes":       {fs: inFile(a + "---more: x\n"), want: "ConfigMap a"},
		"CRLF":                                {fs: inFile(strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n")), want: two},
		"CRLF in a block scalar":              {fs: inFile(strings.ReplaceAll(keyed("|\n    1\n    2"), "\n", "\r\n")), want: "ConfigMap v", data: "map[k:1\n2\n]"},
		"byte order mark":                     {fs: inFile("\ufeff" + a + "---\n" + b), want: two},
		"byte order mark after a separator":   {fs: inFile(a + "---\n\ufeff" + b), want: two},
		"UTF-16":                              {fs: inFile("\xff\xfea\x00:\x00 \x001\x00"), fail: "UTF-8"},
		"tab":                                 {fs: inFile("apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n"), fail: "line 4"},
		"no UTF-8":                            {fs: inFile(keyed("\"\xe9\"")), fail: "UTF-8"},
		"a very long line":                    {fs: inFile(keyed(strings.Repeat("x", 900_000))), want: "ConfigMap v", data: "map[k:" + strings.Repeat("x", 900_000) + "]"},
		"no line end at the end":              {fs: inFile(strings.TrimSpace(keyed("x"))), want: "ConfigMap v"},
		"anchor and merge":                    {fs: inFile("x: &d {k: a}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: v}\ndata: {<<: *d}\n"), want: "ConfigMap v", data: "map[k:a]"},
		"anchor of another document":          {fs: inFile("x: &d {k: y}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: v}\n---\ndata: *d\n"), fail: "document 2"},
		"a key twice":                         {fs: inFile(keyed("x") + "  k: y\n"), fail: "\"k\" already set"},
		"JSON":                                {fs: inFile(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}` + "\n" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`), want: two},
		"JSON list":                           {fs: inFile("[" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}` + "]"), fail: "document 1"},
		"only comments":                       {fs: inFile("# nothing\n"), fail: "no objects"},
		"List of many versions":               {fs: inFile("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}\n- {apiVersion: x.org/v1, kind: Sail, metadata: {name: s}}\n"), want: "Role r, ConfigMap a, Sail s"},
		"List with a name":                    {fs: inFile("apiVersion: v1\nkind: List\nmetadata: {name: all}\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n"), want: "ConfigMap a"},
		"typed List without kinds":            {fs: inFile("apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]\n"), want: two},
		"an object with items":                {fs: inFile("apiVersion: x.org/v1\nkind: Menu\nmetadata: {name: m}\nitems: [{dish: soup}]\n"), want: "Menu m"},
		"a kind that ends in List":            {fs: inFile("apiVersion: x.org/v1\nkind: AllowList\nmetadata: {name: m}\nitems: [{from: here}]\n"), want: "AllowList m"},
		"no name":                             {fs: inFile("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"), fail: "metadata.generateName"},
		"a number as version":                 {fs: inFile("apiVersion: 1\nkind: ConfigMap\nmetadata: {name: a}\n"), fail: "apiVersion"},
		"no metadata":                         {fs: inFile("apiVersion: v1\nkind: ConfigMap\n"), fail: "metadata.name"},
		"metadata is a list":                  {fs: inFile("apiVersion: v1\nkind: ConfigMap\nmetadata: [a]\n"), fail: "metadata"},
		"an object twice":                     {fs: inFile(a + "---\n" + a), fail: "twice"},
		"twice by the set's namespace":        {fs: inFile(a + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"), set: "manifests: [{name: x, file: m.yaml, namespace: shop}]", fail: "twice"},
		"one name in two namespaces":          {fs: inFile(a + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n"), set: "manifests: [{name: x, file: m.yaml, namespace: shop}]", want: "ConfigMap a, ConfigMap other/a"},
		"twice in two versions":               {fs: inFile("apiVersion: x.org/v1\nkind: Sail\nmetadata: {name: a}\n---\napiVersion: x.org/v2\nkind: Sail\nmetadata: {name: a}\n"), fail: "twice"},
		"twice in two files":                  {fs: map[string]string{"d/a.yaml": a, "d/b.yaml": a}, set: "manifests: [{name: x, dir: d}]", fail: "twice"},
		"a template among manifests":          {fs: inFile("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n"), fail: "m.yaml"},
	}
}

// kustomizations that are right or wrong.
func kustomized() map[string]shape {
	set := "manifests: [{name: x, kustomize: k}]"
	one := func(k string, more ...string) map[string]string {
		out := map[string]string{"k/kustomization.yaml": k, "k/a.yaml": object("ConfigMap", "a")}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	return map[string]shape{
		"kustomization with CRLF and a mark": {fs: one("\ufeffresources: [a.yaml]\r\nnamePrefix: p-\r\n"), set: set, want: "ConfigMap p-a"},
		"kustomization with anchors":         {fs: one("x-l: &l {a: b}\nresources: [a.yaml]\ncommonLabels: *l\n"), set: set, fail: "x-l"},
		"bases":                              {fs: one("bases: [b]\n", "k/b/kustomization.yaml", "resources: [c.yaml]\n", "k/b/c.yaml", object("ConfigMap", "c")), set: set, want: "ConfigMap c"},
		"an object of a base twice":          {fs: one("resources: [a.yaml, b.yaml]\n", "k/b.yaml", object("ConfigMap", "a")), set: set, fail: "already"},
		"a generator that merges":            {fs: one("resources: [b]\nconfigMapGenerator: [{name: g, behavior: merge, literals: [b=2]}]\n", "k/b/kustomization.yaml", "configMapGenerator: [{name: g, literals: [a=1]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n"), set: set, want: "ConfigMap g", data: "map[a:1 b:2]"},
		"a namespace":                        {fs: one("resources: [a.yaml]\nnamespace: sea\n"), set: set, want: "ConfigMap sea/a"},
		"a patch that deletes":               {fs: one("resources: [a.yaml, b.yaml]\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, $patch: delete}\"}]\n", "k/b.yaml", object("ConfigMap", "b")), set: set, want: "ConfigMap b"},
		"a file with several documents":      {fs: one("resources: [b.yaml]\n", "k/b.yaml", "---\n# none\n---\n"+object("ConfigMap", "b")+"---\n"+object("ConfigMap", "c")), set: set, want: "ConfigMap b, ConfigMap c"},
		"generateName in a kustomization":    {fs: one("resources: [b.yaml]\n", "k/b.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n"), set: set, fail: "generateName"},
	}
}

// charted are forms of charts and of their values.
func charted() map[string]shape {
	withSub := func(parent, dependency, template string, more ...string) map[string]string {
		return inChart("", append([]string{"c/Chart.yaml", shapeChart + "dependencies: [{name: sub, version: 1.0.0" + dependency + "}]\n", "c/values.yaml", parent,
			"c/charts/sub/Chart.yaml", sub, "c/charts/sub/values.yaml", "k: sub\n", "c/charts/sub/templates/t.yaml", template}, more...)...)
	}
	valued := func(text string) string {
		return "charts: [{name: x, chart: c, namespace: apps, valuesFiles: [v.yaml]}]" + text
	}
	return map[string]shape{
		"separator without a line end":           {fs: inChart("{{ range list 1 2 }}---{{ printf \"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: n%d}\\n\" . }}{{ end }}"), want: "ConfigMap n1, ConfigMap n2"},
		"only a condition":                       {fs: inChart("{{ if .Values.no }}x{{ end }}", "c/templates/u.yaml", keyed("x")), want: "ConfigMap v"},
		"a comment before":                       {fs: inChart("{{- /* licence */ -}}\n# x\n\n---\n" + keyed("x")), want: "ConfigMap v"},
		"CRLF in a template":                     {fs: inChart(strings.ReplaceAll("{{- if true }}\n"+keyed("x")+"{{- end }}\n", "\n", "\r\n")), want: "ConfigMap v"},
		"a tab in what a template makes":         {fs: inChart(keyed("x") + "\tk: y\n"), fail: "c/templates/t.yaml"},
		"a key twice in a template":              {fs: inChart(keyed("x") + "  k: z\n"), want: "ConfigMap v", data: "map[k:z]"},
		"no text in data":                        {fs: inChart(keyed("8080")), fail: "put the value in quotes"},
		"a namespace of its own":                 {fs: inChart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, namespace: \"{{ .Release.Namespace }}\"}\n"), want: "ConfigMap apps/v"},
		"tpl":                                    {fs: inChart(keyed("{{ tpl .Values.k . | quote }}"), "c/values.yaml", "k: '{{ .Release.Name }}-{{ include \"n\" . }}'\n", "c/templates/_h.tpl", "{{ define \"n\" }}n{{ end }}"), want: "ConfigMap v", data: "map[k:x-n]"},
		"Files.Get":                              {fs: inChart(keyed("{{ .Files.Get \"conf/a.txt\" | quote }}"), "c/conf/a.txt", "hi"), want: "ConfigMap v", data: "map[k:hi]"},
		"Files.Glob":                             {fs: inChart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v}\ndata:\n{{ (.Files.Glob \"conf/**.txt\").AsConfig | indent 2 }}\n", "c/conf/a.txt", "1", "c/conf/b/c.txt", "2"), want: "ConfigMap v", data: "map[a.txt:1 c.txt:2]"},
		"Files.Get of a template":                {fs: inChart(keyed("{{ .Files.Get \"templates/t.yaml\" | quote }}")), want: "ConfigMap v", data: "map[k:]"},
		"lookup":                                 {fs: inChart(keyed("{{ (lookup \"v1\" \"Secret\" \"a\" \"b\").data | default \"none\" }}")), want: "ConfigMap v", data: "map[k:none]"},
		"lookup of a list":                       {fs: inChart(keyed("m{{ range (lookup \"v1\" \"Secret\" \"a\" \"\").items }}x{{ end }}")), want: "ConfigMap v", data: "map[k:m]"},
		"getHostByName":                          {fs: inChart(keyed("m{{ getHostByName \"localhost\" }}")), want: "ConfigMap v", data: "map[k:m]"},
		"the cluster's release":                  {fs: inChart(keyed("{{ .Capabilities.KubeVersion.GitVersion }}-{{ .Capabilities.KubeVersion.Minor }}-{{ semverCompare \">=1.36-0\" .Capabilities.KubeVersion.Version }}")), want: "ConfigMap v", data: "map[k:v1.37.2-37-true]"},
		"Helm's version":                         {fs: inChart(keyed("{{ semverCompare \">=3.9.0\" .Capabilities.HelmVersion.Version | quote }}")), want: "ConfigMap v", data: "map[k:true]"},
		"kinds of a bare cluster":                {fs: inChart(keyed("{{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }}-{{ .Capabilities.APIVersions.Has \"policy/v1beta1\" }}-{{ .Capabilities.APIVersions.Has \"extensions/v1beta1/Ingress\" }}")), want: "ConfigMap v", data: "map[k:true-false-false]"},
		"kinds of the cluster":                   {fs: inChart(keyed("{{ .Capabilities.APIVersions.Has \"x.org/v1/Sail\" }}-{{ .Capabilities.APIVersions.Has \"apps/v1\" }}")), real: Cluster{Kubernetes: "v1.37.2", APIs: []string{"x.org/v1", "x.org/v1/Sail"}}, want: "ConfigMap v", data: "map[k:true-false]"},
		"kubeVersion":                            {fs: inChart(keyed("x"), "c/Chart.yaml", shapeChart+"kubeVersion: '>= 1.25.0-0 < 2'\n"), want: "ConfigMap v"},
		"kubeVersion of a later release":         {fs: inChart(keyed("x"), "c/Chart.yaml", shapeChart+"kubeVersion: '>=1.99'\n"), fail: "v1.37.2"},
		"notes that fail":                        {fs: inChart(keyed("x"), "c/templates/NOTES.txt", "{{ fail \"set k\" }}"), fail: "set k"},
		"notes that are no YAML":                 {fs: inChart(keyed("x"), "c/templates/NOTES.txt", "{{ .Release.Name }}: [\n"), want: "ConfigMap v"},
		"required":                               {fs: inChart(keyed("{{ required \"k is missing\" .Values.k }}")), fail: "k is missing"},
		"crds":                                   {fs: inChart("apiVersion: x.org/v1\nkind: Sail\nmetadata: {name: s}\n", "c/crds/s.yaml", crdOf, "c/crds/README.md", "no: ["), want: "CustomResourceDefinition sails.x.org, Sail s"},
		"crds are no templates":                  {fs: inChart("", "c/crds/s.yaml", strings.Replace(crdOf, "metadata: {", "metadata: {annotations: {a: \"{{ x }}\"}, ", 1)), want: "CustomResourceDefinition sails.x.org"},
		"crds of two charts":                     {fs: withSub("", "", "", "c/crds/s.yaml", crdOf, "c/charts/sub/crds/s.yaml", crdOf), want: "CustomResourceDefinition sails.x.org"},
		"crds and templates":                     {fs: inChart(crdOf, "c/crds/s.yaml", crdOf), fail: "twice"},
		"a library":                              {fs: inChart(keyed("{{ include \"sub.n\" . }}"), "c/Chart.yaml", shapeChart+"dependencies: [{name: sub, version: 1.0.0}]\n", "c/charts/sub/Chart.yaml", sub+"type: library\n", "c/charts/sub/templates/_n.tpl", "{{ define \"sub.n\" }}lib{{ end }}", "c/charts/sub/templates/x.yaml", keyed("no")), want: "ConfigMap v", data: "map[k:lib]"},
		"a library alone":                        {fs: inChart("", "c/Chart.yaml", shapeChart+"type: library\n"), fail: "library"},
		"a condition":                            {fs: withSub("sub: {enabled: false}\n", ", condition: sub.enabled", keyed(valueK), "c/templates/t.yaml", keyed("top")), want: "ConfigMap v", data: "map[k:top]"},
		"a condition of the values":              {fs: withSub("sub: {enabled: false}\n", ", condition: sub.enabled", keyed(valueK), "v.yaml", "sub: {enabled: true}\n"), set: valued(""), want: "ConfigMap v", data: "map[k:sub]"},
		"tags":                                   {fs: withSub("tags: {t: false}\n", ", tags: [t]", keyed(valueK), "c/templates/t.yaml", keyed("top")), want: "ConfigMap v", data: "map[k:top]"},
		"an alias":                               {fs: withSub("other: {k: renamed}\n", ", alias: other", keyed(valueK)), want: "ConfigMap v", data: "map[k:renamed]"},
		"globals":                                {fs: withSub("global: {g: all}\n", "", keyed("{{ .Values.global.g }}")), want: "ConfigMap v", data: "map[k:all]"},
		"import-values":                          {fs: withSub("", ", import-values: [out]", "", "c/charts/sub/values.yaml", "exports: {out: {k: given}}\n", "c/templates/t.yaml", keyed(valueK)), want: "ConfigMap v", data: "map[k:given]"},
		"import-values of a child":               {fs: withSub("here: {k: own}\n", ", import-values: [{child: in, parent: here}]", "", "c/charts/sub/values.yaml", "in: {k: child, l: child}\n", "c/templates/t.yaml", keyed("{{ .Values.here.k }}-{{ .Values.here.l }}")), want: "ConfigMap v", data: "map[k:own-child]"},
		"requirements.yaml":                      {fs: inChart("", "c/Chart.yaml", "apiVersion: v1\nname: c\nversion: 1.0.0\n", "c/requirements.yaml", "dependencies: [{name: sub, version: 1.0.0, condition: sub.on}]\n", "c/values.yaml", "sub: {on: true}\n", "c/charts/sub/Chart.yaml", "apiVersion: v1\nname: sub\nversion: 1.0.0\n", "c/charts/sub/templates/t.yaml", keyed("old")), want: "ConfigMap v", data: "map[k:old]"},
		"a packed chart in the chart":            {fs: inChart("", "c/Chart.yaml", shapeChart+"dependencies: [{name: sub, version: 1.0.0}]\n", "c/charts/sub-1.0.0.tgz", packed(map[string]string{"sub/Chart.yaml": sub, "sub/templates/t.yaml": keyed("packed")})), want: "ConfigMap v", data: "map[k:packed]"},
		"tgz with leading dots":                  {fs: map[string]string{"c.tgz": packed(map[string]string{"./c/Chart.yaml": shapeChart, "./c/templates/t.yaml": keyed("x")})}, set: "charts: [{name: x, chart: c.tgz}]", want: "ConfigMap v"},
		"tgz of macOS":                           {fs: map[string]string{"c.tgz": packed(map[string]string{"./._c": "\x00\x05\x16\x07", "./c/Chart.yaml": shapeChart, "./c/templates/t.yaml": keyed("x"), "./c/templates/._t.yaml": "\x00\x05\x16\x07"})}, set: "charts: [{name: x, chart: c.tgz}]", want: "ConfigMap v"},
		"tgz by another name":                    {fs: map[string]string{"c.tar.gz": packed(map[string]string{"v1/Chart.yaml": shapeChart, "v1/templates/t.yaml": keyed("x")})}, set: "charts: [{name: x, chart: c.tar.gz}]", want: "ConfigMap v"},
		"a chart in a registry":                  {fs: map[string]string{}, set: "charts: [{name: x, chart: \"oci://registry.example.org/charts/c:1.0.0\"}]", fail: "helm pull"},
		"Chart.yaml alone":                       {fs: map[string]string{"c/Chart.yaml": shapeChart}, set: "charts: [{name: x, chart: c/Chart.yaml}]", fail: "directory"},
		"values with anchors":                    {fs: inChart(keyed(valueK), "v.yaml", "a: &a {k: b}\n<<: *a\n"), set: valued(""), want: "ConfigMap v", data: "map[k:b]"},
		"values with keys of other types":        {fs: inChart(keyed("{{ range $k, $v := .Values.m }}{{ $k }}={{ $v }} {{ end }}"), "v.yaml", "m: {8080: a, true: b, 1.5: c}\n"), set: valued(""), want: "ConfigMap v", data: "map[k:1.5=c 8080=a true=b]"},
		"values null":                            {fs: inChart(keyed("{{ hasKey .Values \"k\" | quote }}"), "c/values.yaml", "k: {a: b}\n", "v.yaml", "k: null\n"), set: valued(""), want: "ConfigMap v", data: "map[k:false]"},
		"values null in the document":            {fs: inChart(keyed("{{ .Values.k | toJson | quote }}"), "c/values.yaml", "k: {a: b, c: d}\n"), set: "charts: [{name: x, chart: c, values: {k: {a: null}}}]", want: "ConfigMap v", data: `map[k:{"c":"d"}]`},
		"values null of a subchart":              {fs: withSub("", "", keyed("{{ .Values.p | toJson | quote }}"), "c/charts/sub/values.yaml", "p: {httpGet: {port: 1}, wait: 5}\n", "v.yaml", "sub: {p: {httpGet: null, tcpSocket: {port: 2}}}\n"), set: valued(""), want: "ConfigMap v", data: `map[k:{"tcpSocket":{"port":2},"wait":5}]`},
		"values null over a values file":         {fs: inChart(keyed("{{ hasKey .Values \"k\" | quote }}"), "c/values.yaml", "k: a\n", "v.yaml", "k: b\n"), set: "charts: [{name: x, chart: c, valuesFiles: [v.yaml], values: {k: null}}]", want: "ConfigMap v", data: "map[k:false]"},
		"values of several documents":            {fs: inChart(keyed(valueK), "v.yaml", "k: a\n---\nk: b\n"), set: valued(""), fail: "v.yaml"},
		"values that are a list":                 {fs: inChart(keyed(valueK), "v.yaml", "- k\n"), set: valued(""), fail: "v.yaml"},
		"values with a mark":                     {fs: inChart(keyed(valueK), "v.yaml", "\ufeffk: a\r\n"), set: valued(""), want: "ConfigMap v", data: "map[k:a]"},
		"values of comments":                     {fs: inChart(keyed("x"), "v.yaml", "# none\n"), set: valued(""), want: "ConfigMap v"},
		"values with large numbers, as Helm":     {fs: inChart(keyed("{{ .Values.l }}-{{ .Values.l | int64 }}-{{ .Values.m }}-{{ .Values.v }}"), "v.yaml", "l: 1000000\nm: 9007199254740993\nv: 1.10\n"), set: valued(""), want: "ConfigMap v", data: "map[k:1e+06-1000000-9.007199254740992e+15-1.1]"},
		"large numbers in the document, as Helm": {fs: inChart(keyed("{{ .Values.l }}-{{ .Values.l | int64 }}-{{ .Values.m }}")), set: "charts: [{name: x, chart: c, values: {l: 1000000, m: 9007199254740993}}]", want: "ConfigMap v", data: "map[k:1e+06-1000000-9.007199254740992e+15]"},
		"a schema of another host":               {fs: inChart(keyed(valueK), "c/values.schema.json", `{"properties": {"k": {"$ref": "https://schemas.example.org/k.json"}}}`, "v.yaml", "k: a\n"), set: valued(""), want: "ConfigMap v", data: "map[k:a]"},
		"a schema beside one elsewhere":          {fs: inChart(keyed(valueK), "c/values.schema.json", `{"properties": {"k": {"type": "integer"}, "l": {"$ref": "https://schemas.example.org/k.json#/definitions/x"}}}`, "v.yaml", "k: a\n"), set: valued(""), fail: "want integer"},
		"a schema of a file":                     {fs: inChart(keyed(valueK), "c/values.schema.json", `{"properties": {"k": {"$ref": "file:///etc/passwd"}}}`, "v.yaml", "k: a\n"), set: valued(""), fail: "/etc/passwd"},
		"keep":                                   {fs: inChart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, annotations: {helm.sh/resource-policy: keep}}\n"), want: "ConfigMap v"},
		"a hook in capitals":                     {fs: inChart(hooked("helm.sh/hook: \"Pre-Install, post-upgrade\"")), want: "ConfigMap v, before Job j kept, after Job j kept"},
		"a hook deleted when it failed":          {fs: inChart(hooked("helm.sh/hook: pre-install, helm.sh/hook-delete-policy: \"hook-failed,before-hook-creation\"")), want: "ConfigMap v, before Job j kept"},
		"a hook deleted when it worked":          {fs: inChart(hooked("helm.sh/hook: pre-install, helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\"")), want: "ConfigMap v, before Job j"},
		"a weight that is no text":               {fs: inChart(hooked("helm.sh/hook: pre-install, helm.sh/hook-weight: 5")), fail: "put the value in quotes"},
		"a weight that is no number":             {fs: inChart(hooked("helm.sh/hook: pre-install, helm.sh/hook-weight: first")), fail: "no whole number"},
		"a test without a name":                  {fs: inChart("apiVersion: v1\nkind: Pod\nmetadata: {generateName: t-, annotations: {helm.sh/hook: test}}\n---\n" + keyed("x")), want: "ConfigMap v"},
		"a test of Helm 2":                       {fs: inChart("apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test-failure}}\n---\n" + keyed("x")), want: "ConfigMap v"},
		"a hook of Helm 2":                       {fs: inChart(hooked("helm.sh/hook: crd-install")), fail: "crd-install"},
		"a hook without a name":                  {fs: inChart("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-, annotations: {helm.sh/hook: post-install}}\n"), fail: "generateName"},
	}
}

// packed returns a compressed archive.
func packed(fs map[string]string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(fs[name])), Mode: 0o644}) == nil {
			_, _ = w.Write([]byte(fs[name]))
		}
	}
	_ = w.Close()
	_ = z.Close()
	return b.String()
}

func hookName(h chart.Hook) string {
	if h.Keep {
		return manifest.Name(h.Object) + " kept"
	}
	return manifest.Name(h.Object)
}

// TestShapes reads documents as people write them: no object may be lost silently, and everything that Helm, kubectl and kustomize accept is accepted.
func TestShapes(t *testing.T) {
	all := streams()
	maps.Copy(all, kustomized())
	maps.Copy(all, charted())
	if len(all) < 60 {
		t.Errorf("%d shapes", len(all))
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, data, err := s.render(t)
			switch {
			case s.fail != "" && (err == nil || !strings.Contains(err.Error(), s.fail)):
				t.Errorf("%v, %v; want an error with %q", got, err, s.fail)
			case s.fail == "" && err != nil:
				t.Error(err)
			case s.fail == "" && got != s.want:
				t.Errorf("%s, want %s", got, s.want)
			case s.fail == "" && s.data != "" && data != s.data:
				t.Errorf("data %.200s, want %.200s", data, s.data)
			}
		})
	}
}

// render renders the set x of a shape.
func (s shape) render(t *testing.T) (got, data string, err error) {
	dir, set := t.TempDir(), s.set
	isChart := false
	for name, text := range s.fs {
		isChart = isChart || strings.HasPrefix(name, "c/")
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if at := filepath.Join(dir, "c", "Chart.yaml"); isChart && s.fs["c/Chart.yaml"] == "" {
		testkit.Must(t, os.WriteFile(at, []byte(shapeChart), 0o600))
	}
	if set == "" && isChart {
		set = "charts: [{name: x, chart: c, namespace: apps}]"
	} else if set == "" {
		set = "manifests: [{name: x, file: m.yaml}]"
	}
	doc, _, err := ReadDocument("cluster.yaml", dir, []byte(head+"  "+set+"\n"))
	if err != nil {
		return "", "", err
	}
	in := s.real
	if in.Kubernetes == "" {
		in = bare
	}
	all, err := All(doc, in)
	if err != nil {
		return "", "", err
	}
	r := all["manifests.x"]
	if isChart || len(r.Objects) == 0 {
		r = all["charts.x"]
	}
	found := names(r)
	for _, h := range r.Before {
		found = append(found, "before "+hookName(h))
	}
	for _, h := range r.After {
		found = append(found, "after "+hookName(h))
	}
	if len(r.Objects) > 0 {
		data = fmt.Sprint(r.Objects[0].Object["data"])
	}
	return strings.Join(found, ", "), data, nil
}
