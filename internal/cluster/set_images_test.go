package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSetImages: a plan warns of the images that come from outside, whatever way they are written and whatever object names them.
func TestSetImages(t *testing.T) {
	dir := t.TempDir()
	digest, other := "sha256:"+strings.Repeat("c", 64), "sha256:"+strings.Repeat("d", 64)
	pod := func(image string) string { return "{containers: [{name: a, image: \"" + image + "\"}]}" }
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "web", "templates"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "web", "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "web", "templates", "a.yaml"), []byte(strings.Join([]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: " + pod("nginx:1.29"),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: " + pod("docker.io/library/nginx:1.29@"+digest),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: " + pod("nginx:1.29@"+other),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: d}\nspec: " + pod("nginx"),
		"apiVersion: monitoring.example.org/v1\nkind: Prometheus\nmetadata: {name: e}\nspec: {image: \"quay.io/p/prometheus:v3\", thanosImage: {repository: quay.io/p/thanos, tag: v1}}",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: f, annotations: {helm.sh/hook: pre-install}}\nspec: {template: {spec: " + pod("busybox:1") + "}}",
	}, "\n---\n")), 0o644))
	doc, _, err := siteset.ReadDocument("cluster.yaml", dir, []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: a, replicas: 1}]\n  controlPlane: {replicas: 1}\n  charts: [{name: web, chart: web}]\n"))
	testkit.Must(t, err)
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	set := bundle.Set{Schema: 1, Name: v1alpha1.DefaultImageSet}
	for _, name := range []string{"docker.io/library/nginx:1.29", "quay.io/p/thanos:v1"} {
		name, tag, _ := strings.Cut(name, ":")
		set.Images = append(set.Images, bundle.SetImage{Name: name, Tag: tag, Digest: digest, Platforms: []string{"linux/amd64"},
			Blobs: []bundle.SetBlob{{Digest: digest, Size: 7, MediaType: "application/vnd.oci.image.manifest.v1+json"}}})
	}
	testkit.Must(t, l.Secrets.Put(t.Context(), "images-"+set.Name, testkit.Value(set.Encode())(t)))
	outside := "busybox:1, nginx, nginx:1.29@" + other + ", quay.io/p/prometheus:v3"
	for _, c := range []struct {
		registry *v1alpha1.ImageRegistry
		want     string
	}{
		{nil, "not in the bundle: busybox:1, docker.io/library/nginx:1.29@" + digest + ", nginx, nginx:1.29, nginx:1.29@" + other + ", quay.io/p/prometheus:v3, quay.io/p/thanos:v1"},
		{&v1alpha1.ImageRegistry{Replicas: 1}, "neither in the bundle nor in the registry inside: " + outside},
	} {
		l.Doc.Spec.Registry = c.registry
		got := setImages(l.Cluster)
		if len(got) != 1 || !strings.HasSuffix(got[0], c.want) {
			t.Errorf("registry %v: %q, want %q", c.registry != nil, got, c.want)
		}
	}
}
