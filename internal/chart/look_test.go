package chart

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

const hooked = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: %-\n  annotations: {helm.sh/hook: \"%\"}\n"

// TestLookInto looks into charts that a plan refuses.
func TestLookInto(t *testing.T) {
	hook := func(event string) string { return strings.ReplaceAll(hooked, "%", event) }
	look, err := LookInto(files(map[string]string{
		"Chart.yaml":             meta + "annotations:\n  artifacthub.io/images: |\n    - name: x\n      image: registry.example.org/x:1\n",
		"values.yaml":            "sub: {on: true, image: a}\n",
		"crds/sail.yaml":         "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.example.org}\n",
		"templates/bye.yaml":     hook("pre-delete"),
		"templates/test.yaml":    hook("test"),
		"templates/tests.yaml":   hook("test, post-install"),
		"templates/looks.yaml":   "{{ $s := lookup \"v1\" \"Secret\" \"apps\" \"x\" }}{{ if $s }}never: 1{{ end }}\n---\nkind: Secret\nmetadata: {name: {{ randAlphaNum 8 | lower | quote }}}\n",
		"templates/NOTES.txt":    "[",
		"charts/sub/Chart.yaml":  "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/d": "kind: Deployment\nmetadata: {name: {{ .Values.image }}, namespace: {{ .Release.Namespace }}}\n",
	}), Release{Namespace: "apps", Kubernetes: "v1.37.2"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range look.Documents {
		line := d.Where
		if d.Test {
			line += " (test)"
		}
		got = append(got, line)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"web/charts/sub/templates/d: Deployment apps/a", "web/templates/bye.yaml: Job pre-delete-", "web/templates/test.yaml: Job test- (test)",
		"web/templates/tests.yaml: Job test, post-install-", "web/templates/looks.yaml: Secret ", "sail.yaml: CustomResourceDefinition sails.example.org"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(got) != 6 || strings.Count(text, "(test)") != 1 {
		t.Errorf("%d objects:\n%s", len(got), text)
	}
	if len(look.LookedUp) != 1 || look.LookedUp[0] != "Secret apps/x" || look.Chart != "web 1.2.0" || !strings.Contains(look.Listed, "registry.example.org/x:1") {
		t.Errorf("%+v", look)
	}
	for name, bad := range map[string]map[string]string{
		"library": {"Chart.yaml": meta + "type: library\n"}, "template": {"templates/a.yaml": "{{ end }}"}, "no YAML": {"templates/a.yaml": "a: ["}, "a list": {"templates/a.yaml": "- a\n"},
		"no subchart": {"Chart.yaml": meta + "dependencies: [{name: redis, version: 1.0.0, repository: x}]\n"},
	} {
		if _, err := LookInto(files(bad), release()); fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimits: templates that never end or take all memory end with one clear error.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		limits   limits
		says     string
	}{
		"time":      {"{{ range $i := until 3000 }}{{ range until 3000 }}{{ end }}{{ end }}", limits{time: time.Millisecond}, "take longer than 1ms"},
		"memory":    {"{{ range until 4000000 }}{{ end }}{{ range until 2000 }}{{ range until 2000 }}0123456789012345678901234567890123456789{{ end }}{{ end }}", limits{heap: 1 << 20}, "1 MiB of memory"},
		"recursion": {`{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`, limits{}, "rendering template has a nested reference"},
		"repeat":    {`{{ repeat 1000000000 "0123456789" }}`, limits{}, "larger than 16 MiB"},
	} {
		r := release()
		r.limits = c.limits
		_, err := Render(files(map[string]string{"templates/a.yaml": c.template}), r)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := repeat(3, "ab"); err != nil || text != "ababab" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := repeat(-1, "a"); err == nil {
		t.Error("a negative count is taken")
	}
	if _, err := (limits{}).keep(func() (map[string]string, error) { return nil, errors.New("mine") }); err == nil || err.Error() != "mine" {
		t.Error(err)
	}
}

// TestSetValue reads values as helm --set does.
func TestSetValue(t *testing.T) {
	values := map[string]any{}
	for _, text := range []string{"image.tag=v1", "list[1]=b", `a\.b=c`, "n=3"} {
		if err := SetValue(values, text); err != nil {
			t.Error(err)
		}
	}
	if values["image"].(map[string]any)["tag"] != "v1" || values["a.b"] != "c" || values["n"] != int64(3) {
		t.Errorf("%#v", values)
	}
	for _, text := range []string{"", "image.tag", "a[70000]=x"} {
		if err := SetValue(values, text); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "KEY=VALUE") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
