package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

const meta = "apiVersion: v2\nname: web\nversion: 1.2.0\n"

// files returns a chart with these files besides Chart.yaml.
func files(more map[string]string) map[string][]byte {
	out := map[string][]byte{"Chart.yaml": []byte(meta)}
	for name, text := range more {
		out[name] = []byte(text)
	}
	return out
}

func release() Release { return Release{Name: "shop", Namespace: "apps", Kubernetes: "v1.37.2"} }

const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-conf
  namespace: {{ .Release.Namespace }}
data:
  port: {{ .Values.port | quote }}
  monitored: {{ .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" | quote }}
  kube: {{ .Capabilities.KubeVersion.Version }}
`

// TestRender renders values from files and the document, definitions, and hooks in the order of their weights.
func TestRender(t *testing.T) {
	hook := func(name, kind, events, weight string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n  annotations: {helm.sh/hook: \"" + events + "\", helm.sh/hook-weight: \"" + weight +
			"\", helm.sh/hook-delete-policy: hook-succeeded}\n"
	}
	r := release()
	r.ValuesFiles = [][]byte{[]byte("port: 1\nname: a\n"), []byte("port: 2\n")}
	r.Values = map[string]any{"port": 8080}
	r.APIs = append(BareAPIs(), "monitoring.coreos.com/v1")
	got, err := Render(files(map[string]string{
		"values.yaml": "port: 0\n", "templates/conf.yaml": configMap, "templates/NOTES.txt": "{{ .Values.port }} is not YAML: [", "templates/_helpers.tpl": `{{ define "x" }}x{{ end }}`,
		"crds/sail.yaml":      "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.example.org}\n",
		"templates/a.yaml":    hook("migrate", "Job", "pre-install,pre-upgrade", "5"),
		"templates/b.yaml":    hook("rights", "ServiceAccount", "pre-install,pre-rollback", "-5"),
		"templates/test.yaml": hook("probe", "Pod", "test", "0"),
		"templates/c.yaml":    hook("check", "Job", "post-install", "0"),
		"templates/none.yaml": "{{ if .Values.none }}x{{ end }}\n---\n# nothing\n",
	}), r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range got.Objects {
		names = append(names, manifest.Name(u))
	}
	if want := []string{"CustomResourceDefinition sails.example.org", "ConfigMap apps/shop-conf"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	data := got.Objects[1].Object["data"].(map[string]any)
	if data["port"] != "8080" || data["monitored"] != "true" || data["kube"] != "v1.37.2" {
		t.Errorf("%v", data)
	}
	if len(got.Before) != 2 || got.Before[0].Object.GetName() != "rights" || got.Before[1].Object.GetName() != "migrate" || got.Before[1].Keep || !Jobs(got.Before) {
		t.Errorf("before: %+v", got.Before)
	}
	if len(got.After) != 1 || got.After[0].Object.GetName() != "check" {
		t.Errorf("after: %+v", got.After)
	}
}

// TestSameEachTime: what depends on the clock or on luck is refused where it would be applied, and nothing else is.
func TestSameEachTime(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  v: {{ %s | quote }}\n"
	for expression, ok := range map[string]bool{
		"now": false, "now | unixEpoch": false, `now | date "2006-01-02"`: false, `now | date "20060102150405"`: false, `now | date "04"`: false, `"" | date "2006"`: false,
		`now | htmlDate`: false, `dateInZone "2006" now "UTC"`: false, "randInt 0 2": false, "randAlphaNum 8": false, `shuffle "ab"`: false, "uuidv4": false,
		`ago (toDate "2006-01-02" "2020-01-01")`:         false,
		`toDate "2006-01-02" "2026-01-05" | date "2006"`: true, `date "2006" 0`: true, "keys .Values.ports | first": true, "values .Values.ports | first": true,
		"default (randAlphaNum 8) .Values.name": true, `default (now | date "2006") .Values.name`: true, "keys .Values.ports .Values.ports | join `,`": true,
	} {
		r := release()
		r.Values = map[string]any{"name": "set", "ports": map[string]any{"a": 1, "b": 2, "c": 3, "d": 4}}
		if _, err := Render(files(map[string]string{"templates/a.yaml": strings.Replace(object, "%s", expression, 1)}), r); (err == nil) != ok || err != nil && fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v", expression, err)
		}
	}
	_, err := Render(files(map[string]string{
		"templates/NOTES.txt":  "{{ now }} {{ randAlphaNum 5 }}",
		"templates/test.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: t-{{ randAlphaNum 5 | lower }}, annotations: {helm.sh/hook: test}}\n",
		"templates/plain.yaml": "# made at {{ now }}\n" + strings.Replace(object, "{{ %s | quote }}", "x", 1),
	}), release())
	if err != nil {
		t.Errorf("notes, tests and comments: %v", err)
	}
}

// TestHookEvents: an installation runs no upgrade hooks, and an upgrade no installation hooks.
func TestHookEvents(t *testing.T) {
	job := func(name, events string) string {
		return "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: \"" + events + "\"}}\n"
	}
	got, err := Render(files(map[string]string{"templates/a.yaml": job("both", "pre-install,pre-upgrade") + job("check", "pre-upgrade") + job("seed", "post-install") + job("migrate", "post-install, pre-upgrade")}), release())
	if err != nil {
		t.Fatal(err)
	}
	names := func(hooks []Hook) string {
		text := ""
		for _, h := range hooks {
			text += h.Object.GetName() + " "
		}
		return text
	}
	for _, c := range []struct{ got, want string }{
		{names(Due(got.Before, true)), "both "}, {names(Due(got.Before, false)), "both check migrate "}, {names(Due(got.After, true)), "migrate seed "}, {names(Due(got.After, false)), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if _, err := Render(files(map[string]string{"templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: -5}}\n"}), release()); err == nil || !strings.Contains(err.Error(), "hook-weight") {
		t.Errorf("a weight without quotes: %v", err)
	}
}

// TestLookups: a lookup finds nothing, as with helm template, and the plan names it, also if the chart generates a value in its place.
func TestLookups(t *testing.T) {
	const secret = "{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace \"admin\" }}\napiVersion: v1\nkind: Secret\nmetadata: {name: admin}\nstringData:\n" +
		"  password: {{ if .Values.password }}{{ .Values.password | quote }}{{ else if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 12 | quote }}{{ end }}\n" +
		"  all: {{ lookup \"v1\" \"Node\" \"\" \"\" | len | quote }}\n"
	r := release()
	_, err := Render(files(map[string]string{"templates/a.yaml": secret}), r)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "web/templates/a.yaml") || !strings.Contains(err.Error(), "looks up Secret apps/admin, Node, but") {
		t.Errorf("a made-up password: %v", err)
	}
	r.Values = map[string]any{"password": "set"}
	got, err := Render(files(map[string]string{"templates/a.yaml": secret}), r)
	if err != nil || len(got.Objects) != 1 || !slices.Equal(got.LookedUp, []string{"Secret apps/admin", "Node"}) {
		t.Errorf("a password from the values: %+v %v", got, err)
	}
}

// TestUnrunHooks: hooks of removals and rollbacks are named and do not keep a chart from its use.
func TestUnrunHooks(t *testing.T) {
	got, err := Render(files(map[string]string{
		"templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: uninstall, namespace: apps, annotations: {helm.sh/hook: \"pre-delete,post-rollback\"}}\n",
		"templates/b.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: both, annotations: {helm.sh/hook: \"pre-install, post-delete\"}}\n",
	}), release())
	if err != nil || len(got.Objects) != 0 || len(got.After) != 0 || len(got.Before) != 1 || !slices.Equal(got.Unrun, []string{"Job apps/uninstall (pre-delete, post-rollback)", "Job both (post-delete)"}) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestBadCharts lists refused charts, with the words that the message must contain.
func TestBadCharts(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		kind  fail.Kind
		want  []string
	}{
		"syntax":           {map[string]string{"templates/a.yaml": "a: 1\n\nb: {{ end }}\n"}, fail.Invalid, []string{"web/templates/a.yaml:3"}},
		"unknown function": {map[string]string{"templates/a.yaml": "a: {{ nope }}\n"}, fail.Invalid, []string{"web/templates/a.yaml:1", "nope"}},
		"required":         {map[string]string{"templates/a.yaml": "a: {{ required \"set host\" .Values.host }}\n"}, fail.Invalid, []string{"web/templates/a.yaml:1", "set host"}},
		"fail":             {map[string]string{"templates/a.yaml": "{{ fail \"use v2\" }}\n"}, fail.Invalid, []string{"use v2"}},
		"no YAML":          {map[string]string{"templates/a.yaml": "a: [\n"}, fail.Invalid, []string{"web/templates/a.yaml"}},
		"no name":          {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: Secret\n"}, fail.Invalid, []string{"web/templates/a.yaml", "metadata.name"}},
		"random":           {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {p: {{ randAlphaNum 20 }}}\n"}, fail.Refused, []string{"web/templates/a.yaml", "each time"}},
		"hook":             {map[string]string{"templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bye, annotations: {helm.sh/hook: pre-instal}}\n"}, fail.Refused, []string{"Job bye", "hook pre-instal, which"}},
		"weight":           {map[string]string{"templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: soon}}\n"}, fail.Invalid, []string{"soon", "Job j"}},
		"schema":           {map[string]string{"values.yaml": "port: x\nmode: a\n", "values.schema.json": `{"properties":{"port":{"type":"integer"},"mode":{"enum":["b"]}}}`}, fail.Invalid, []string{"values.schema.json", "port", "want integer", "mode"}},
		"schema fetches":   {map[string]string{"values.schema.json": `{"$ref":"file:///etc/passwd"}`}, fail.Invalid, []string{"may not read"}},
		"library":          {map[string]string{"Chart.yaml": meta + "type: library\n"}, fail.Invalid, []string{"library"}},
		"other release":    {map[string]string{"Chart.yaml": meta + "kubeVersion: \"<1.20.0\"\n"}, fail.Invalid, []string{"v1.37.2", "<1.20.0"}},
		"no dependencies":  {map[string]string{"Chart.yaml": meta + "dependencies: [{name: redis, version: 1.0.0, repository: x}]\n"}, fail.Invalid, []string{"redis", "helm dependency build"}},
		"other version":    {map[string]string{}, fail.Invalid, []string{"1.2.0", "not 9"}},
	} {
		r := release()
		if name == "other version" {
			r.Version = "9"
		}
		_, err := Render(files(c.files), r)
		if fail.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", name, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: several lines: %q", name, err)
		}
	}
	if _, err := Render(map[string][]byte{"values.yaml": nil}, release()); fail.KindOf(err) != fail.Invalid {
		t.Errorf("no chart: %v", err)
	}
}
