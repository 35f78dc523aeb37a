package siteset

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestMain also lets the test binary act as the process that renders.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "render" {
		if err := Answer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEmptyItems: kustomize would panic over each of these.
func TestEmptyItems(t *testing.T) {
	for name, text := range map[string]string{
		"target": "replacements: [{sourceValue: x, targets: [null]}]\n",
		"reject": "replacements: [{sourceValue: x, targets: [{select: {kind: ConfigMap}, reject: [null], fieldPaths: [data.x]}]}]\n",
		"scalar": "replacements: [{sourceValue: x, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.e.f]}]}]\n",
		"labels": "labels: [null]\nimages: [null]\npatches: [null]\nreplicas: [null]\nvars: [null]\n",
	} {
		fs := map[string]string{"k/a.yaml": object("ConfigMap", "a") + "data: {x: y, e: \"\"}\n", "k/kustomization.yaml": "resources: [a.yaml]\n" + text}
		if got, err := built(t, fs); err != nil && fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v, %v", name, got, err)
		} else if err == nil && name != "labels" && name != "scalar" {
			t.Errorf("%s: no error, %v", name, got)
		}
	}
}

// TestApart: another process renders the same as this one, with the same errors.
func TestApart(t *testing.T) {
	dir := write(t, map[string]string{
		"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": object("ConfigMap", "a"),
		"c/Chart.yaml":       "apiVersion: v2\nname: x\nversion: 1.0.0\n",
		"c/templates/d.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\ndata: {v: \"{{ .Values.big }} {{ .Values.half }} {{ .Values.list }}\"}\n",
		"c/templates/h.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: \"3\"}}\n",
	})
	doc, _, err := ReadDocument("cluster.yaml", dir, []byte(head+"  manifests: [{name: k, kustomize: k}]\n  charts: [{name: x, chart: c, values: {big: 9007199254740993, half: 0.5, list: [1, a]}}]\n"))
	testkit.Must(t, err)
	apart := Apart("render")
	want, got := testkit.Value(All(doc, bare))(t), testkit.Value(apart(t.Context(), doc, bare))(t)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v instead of %+v", got, want)
	}
	doc.Spec.Manifests[0].Kustomize, doc.Sources["other"] = "other", doc.Sources["k"][:8]
	_, here := All(doc, bare)
	if _, there := apart(t.Context(), doc, bare); here == nil || there == nil || here.Error() != there.Error() || fail.KindOf(here) != fail.KindOf(there) {
		t.Errorf("%v instead of %v", there, here)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = apart(ctx, doc, bare)
	testkit.Fails(t, err, fail.Interrupted)
}

// TestBombs: a document that multiplies its values ends in one error, and this process survives.
func TestBombs(t *testing.T) {
	copies, doubled := make([]string, 40), strings.Repeat("- {source: {kind: ConfigMap, fieldPath: data.a}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a], options: {delimiter: \"-\", index: 1000000}}]}\n", 40)
	for i := range copies {
		copies[i] = fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/a%d"}`, i)
	}
	aliases := "x: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for i, from := range "abc" {
		aliases += fmt.Sprintf("x%d: &%c [%s]\n", i, from+1, strings.TrimSuffix(strings.Repeat("*"+string(from)+",", 10), ","))
	}
	documents := ""
	for i := range 300 {
		documents += "---\n" + object("ConfigMap", fmt.Sprintf("a%d", i)) + aliases
	}
	apart := apart(apartLimits{Memory: 256 << 20, CPU: 10 * time.Second}, "render")
	for name, c := range map[string]struct {
		set string
		fs  map[string]string
	}{
		"copies":       {"kustomize: k", map[string]string{"k/a.yaml": object("ConfigMap", "a") + "data: {a: b}\n", "k/kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[" + strings.Join(copies, ",") + "]'}]\n"}},
		"replacements": {"kustomize: k", map[string]string{"k/a.yaml": object("ConfigMap", "a") + "data: {a: b}\n", "k/kustomization.yaml": "resources: [a.yaml]\nreplacements:\n" + doubled}},
		"aliases":      {"kustomize: k", map[string]string{"k/a.yaml": documents, "k/kustomization.yaml": "resources: [a.yaml]\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			doc, _, err := read("cluster.yaml", write(t, c.fs), []byte(head+"  manifests: [{name: x, "+c.set+"}]\n"))
			testkit.Must(t, err)
			_, err = apart(t.Context(), doc, bare)
			testkit.Fails(t, err, fail.Refused)
			if text := err.Error(); len(text) > 1000 || !strings.Contains(text, "the manifests and charts") {
				t.Errorf("%.1000s", text)
			}
		})
	}
}
