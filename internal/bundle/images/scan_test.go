package images

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestScan finds images in objects of all kinds.
func TestScan(t *testing.T) {
	d := sha(2)
	for name, c := range map[string]struct {
		text    string
		images  []string // line: image
		unclear []string
	}{
		"pod": {"kind: Pod\nspec:\n  initContainers:\n  - image: a\n  containers:\n  - name: x\n    image: b:1\n  ephemeralContainers:\n  - image: c@" + d + "\n",
			[]string{"4: docker.io/library/a:latest", "7: docker.io/library/b:1", "9: docker.io/library/c@" + d}, nil},
		"cronjob":      {"kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{image: 'q.io/a/b:1'}]}}}}}\n", []string{"2: q.io/a/b:1"}, nil},
		"json":         {`{"kind":"Pod","spec":{"containers":[{"image":"q.io/a/b:1"}]}}`, []string{"1: q.io/a/b:1"}, nil},
		"list":         {"kind: List\nitems:\n- kind: Pod\n  spec:\n    containers:\n    - image: q.io/a/b:1\n", []string{"6: q.io/a/b:1"}, nil},
		"documents":    {"kind: Pod\nspec: {containers: [{image: q.io/a:1}]}\n---\n# nothing\n---\nkind: Pod\nspec: {containers: [{image: q.io/b:1}]}\n", []string{"2: q.io/a:1", "7: q.io/b:1"}, nil},
		"alias":        {"a: &i q.io/a/b:1\nspec: {containers: [{image: *i}]}\n", []string{"1: q.io/a/b:1"}, []string{"1: q.io/a/b:1"}},
		"prometheus":   {"kind: Prometheus\nspec:\n  image: quay.io/prometheus/prometheus:v3\n  thanos:\n    image: quay.io/thanos/thanos:v1\n", []string{"3: quay.io/prometheus/prometheus:v3", "5: quay.io/thanos/thanos:v1"}, nil},
		"imageName":    {"kind: Cluster\nspec:\n  imageName: ghcr.io/cloudnative-pg/postgresql:17\n", []string{"3: ghcr.io/cloudnative-pg/postgresql:17"}, nil},
		"parts":        {"spec:\n  image:\n    registry: q.io\n    repository: a/b\n    tag: v1\n", []string{"4: q.io/a/b:v1"}, nil},
		"parts digest": {"spec:\n  initImage: {repository: q.io/a/b, tag: v1, digest: '" + d + "'}\n", []string{"2: q.io/a/b:v1@" + d}, nil},
		"volume":       {"kind: Pod\nspec:\n  volumes:\n  - name: m\n    image: {reference: 'q.io/m:1', pullPolicy: Always}\n", []string{"5: q.io/m:1"}, nil},
		"related":      {"spec:\n  containers:\n  - env:\n    - name: RELATED_IMAGE_AGENT\n      value: q.io/a/agent:1\n", []string{"5: q.io/a/agent:1"}, nil},
		"argument":     {"spec:\n  containers:\n  - args: ['--reloader=quay.io/p/reloader:v1', --listen=0.0.0.0:80]\n", nil, []string{"3: quay.io/p/reloader:v1"}},
		"arguments":    {"spec: {args: ['--images=q.io/a:1,q.io/b:2,q.io/c:3'], env: [{name: X, value: 'q.io/d:4 q.io/e:5'}]}\n", nil, []string{"1: q.io/a:1", "1: q.io/b:2", "1: q.io/c:3", "1: q.io/d:4", "1: q.io/e:5"}},
		"flag":         {"spec: {args: ['--reloader-image=team/reloader:v1', -image=busybox, --no-image, '--image=Not One']}\n", nil, []string{"1: team/reloader:v1", "1: busybox"}},
		"schema":       {"kind: CustomResourceDefinition\nspec:\n  properties:\n    image: {type: string, description: the image}\n", nil, nil},
		"picture":      {"kind: Shop\nspec:\n  image: https://example.org/logo.png\n", nil, nil},
		"foreign":      {"kind: Shop\nspec:\n  image: Our Logo\n", nil, []string{"3: Our Logo"}},
		"empty":        {"spec: {containers: [{image: ''}]}\n", nil, nil},
		"nothing":      {"# nothing\n", nil, nil},
	} {
		s := scan(t, c.text)
		var found, unclear []string
		for _, m := range s.Images {
			found = append(found, fmt.Sprintf("%d: %s", m.Line, m.Reference))
		}
		for _, m := range s.Unclear {
			unclear = append(unclear, fmt.Sprintf("%d: %s", m.Line, m.Text))
		}
		if !slices.Equal(found, c.images) || !slices.Equal(unclear, c.unclear) {
			t.Errorf("%s: %q, unclear %q; want %q, %q", name, found, unclear, c.images, c.unclear)
		}
	}
}

// TestScanRefuses names file, line and field.
func TestScanRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"spec:\n  containers:\n  - image: '{{ .Values.image }}'\n": "file.yaml:3: spec.containers[0].image",
		"spec:\n  containers:\n  - image: Docker.io/Nginx\n":       "file.yaml:3",
		"kind: {{ .Kind }}\n  x\n":                                 "file.yaml",
		"kind: Kustomization\nimages:\n- name: a\n  newTag: b\n":   "kubectl kustomize",
		"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + bomb(8):                  "more than",
	} {
		var s Scanned
		err := s.Scan("file.yaml", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want one that says %q", text, err, says)
		}
	}
}

// bomb makes YAML whose aliases multiply.
func bomb(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", 'b'+i, 'b'+i, strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 10))
	}
	return b.String()
}

// TestScanMade: errors name the object instead of a line.
func TestScanMade(t *testing.T) {
	var s Scanned
	testkit.Must(t, s.ScanMade("web/a.yaml: Pod web", []byte(`{"spec":{"containers":[{"image":"a:1","args":["q.io/b:1"]}]}}`)))
	if len(s.Images) != 1 || s.Images[0].Where() != "web/a.yaml: Pod web: spec.containers[0].image" || len(s.Unclear) != 1 || s.Unclear[0].Line != 0 {
		t.Errorf("%+v", s)
	}
	if !s.Has(s.Images[0].Reference) || s.Has(Reference{Name: "q.io/b", Tag: "1"}) {
		t.Error("Has is wrong")
	}
	if err := s.ScanMade("web/a.yaml: Pod web", []byte(`{"spec":{"containers":[{"image":"A:1"}]}}`)); err == nil || !strings.Contains(err.Error(), "web/a.yaml: Pod web: spec.containers[0].image") {
		t.Error(err)
	}
}

// TestCheckPinned: the error names every mention without a digest.
func TestCheckPinned(t *testing.T) {
	s := scan(t, "spec:\n  containers:\n  - image: a:1\n  - image: b@"+sha(3)+"\n  - image: c\n")
	err := CheckPinned(s.Images)
	if fail.KindOf(err) != fail.Refused {
		t.Fatal(err)
	}
	for _, want := range []string{"2 images", "file.yaml:3: spec.containers[0].image: a:1", "file.yaml:5: spec.containers[2].image: c", "--pin"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	testkit.Must(t, CheckPinned(s.Images[1:2]))
}

// TestScanPath reads the manifests of a directory.
func TestScanPath(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"b/x.yml": "image: q.io/b:1", "a.yaml": "image: q.io/a:1", "c.json": `{"image":"q.io/c:1"}`, "notes.md": "image: q.io/d:1", ".git/e.yaml": "image: q.io/e:1"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	s := testkit.Value(ScanPath(dir))(t)
	var found []string
	for _, m := range s.Images {
		found = append(found, m.Name)
	}
	if want := []string{"q.io/a", "q.io/b", "q.io/c"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	if _, err := ScanPath(filepath.Join(dir, "none")); fail.KindOf(err) != fail.Invalid {
		t.Error(err)
	}
}
