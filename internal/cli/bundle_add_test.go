package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBundleAdd adds images by name and from a manifest, carries the set to another library with a bundle, and removes it.
func TestBundleAdd(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	img := testkit.Value(random.Image(1000, 2))(t)
	config := testkit.Value(img.ConfigFile())(t).DeepCopy()
	config.OS, config.Architecture = "linux", "arm64"
	img = testkit.Value(mutate.ConfigFile(img, config))(t)
	testkit.Must(t, remote.Write(testkit.Value(name.NewTag(host+"/team/app:v1"))(t), img))
	digest := testkit.Value(img.Digest())(t).String()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	testkit.Must(t, os.WriteFile(manifest, []byte("kind: Pod\nspec:\n  containers:\n  - image: "+host+"/team/app:v1\n"), 0o644))

	charts := t.TempDir()
	for file, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "values.yaml": "tag: none\n",
		"templates/pod.yaml": "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{image: \"" + host + "/team/app:{{ .Values.tag }}\"}]}\n",
	} {
		testkit.Must(t, os.MkdirAll(filepath.Join(charts, "web", filepath.Dir(file)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(charts, "web", file), []byte(text), 0o644))
	}
	web := filepath.Join(charts, "web")
	testkit.Must(t, os.WriteFile(filepath.Join(charts, "values.yaml"), []byte("tag: v1\n"), 0o644))
	pushChart(t, host+"/charts/web:1.0.0", web)

	root, id := bundleFixture(t)
	other, _ := bundleFixture(t)
	file := filepath.Join(t.TempDir(), "all.tar.zst")
	arm := []string{"--platform", "linux/arm64"}
	for _, c := range []struct {
		args []string
		root string
		kind fail.Kind // -1: it works
		says string
	}{
		{append([]string{"bundle", "add", "manifest", manifest}, arm...), root, fail.Refused, "pod.yaml:4: spec.containers[0].image"},
		{append([]string{"bundle", "add", "manifest", manifest, "--pin"}, arm...), root, -1, host + "/team/app:v1@" + digest},
		{append([]string{"bundle", "add", "image", host + "/team/app:v1", "--set", "more", "-o", "json"}, arm...), root, -1, `"digest": "` + digest + `"`},
		{append([]string{"bundle", "add", "chart", web, "--value", "tag=v1"}, arm...), root, fail.Refused, "web/templates/pod.yaml: Pod web: spec.containers[0].image: " + host + "/team/app:v1"},
		{append([]string{"bundle", "add", "chart", web, "--pin", "--set", "chart", "--values", filepath.Join(charts, "values.yaml")}, arm...), root, -1, host + "/team/app:v1@" + digest},
		{append([]string{"bundle", "add", "chart", "oci://" + host + "/charts/web:1.0.0", "--pin", "--value", "tag=v1@" + digest}, arm...), root, -1, digest},
		{[]string{"bundle", "add", "chart", "oci://" + host + "/charts/web"}, root, fail.Invalid, ":VERSION"},
		{[]string{"bundle", "add", "chart", "oci://" + host + "/team/app:v1"}, root, fail.Invalid, "not a Helm chart"},
		{[]string{"bundle", "add", "chart", "https://charts.example.org/web-1.tgz"}, root, fail.Invalid, "helm pull"},
		{[]string{"bundle", "add", "chart", "repo/web"}, root, fail.Invalid, "helm pull"},
		{[]string{"bundle", "add", "chart", web, "--set", "tag=v1"}, root, fail.Invalid, "--value tag=v1"},
		{[]string{"bundle", "add", "chart", web, "--kubernetes", "new"}, root, fail.Invalid, "v1."},
		{[]string{"bundle", "add", "image"}, root, fail.Invalid, "--from"},
		{[]string{"bundle", "add", "image", "a:1", "--username", "me"}, root, fail.Invalid, "--password-file"},
		{[]string{"bundle", "add", "image", "a:1", "--set", "Not/A/Set"}, root, fail.Invalid, "name of a set"},
		{[]string{"bundle", "list"}, root, -1, "site "},
		{[]string{"bundle", "list", "-o", "json"}, root, -1, `"sets": [`},
		{[]string{"bundle", "inspect", "site"}, root, -1, digest},
		{[]string{"bundle", "inspect", "site", "--sbom"}, root, fail.Invalid, "bill of materials"},
		{[]string{"bundle", "inspect", "nothing"}, root, fail.NotFound, "naupegos bundle list"},
		{[]string{"bundle", "verify", "more"}, root, -1, "set more (1 images) is whole"},
		{[]string{"bundle", "export", id, file, "--set", "site,more"}, root, -1, ""},
		{[]string{"bundle", "export", id, file + "2", "--set", "absent"}, root, fail.NotFound, "absent"},
		{[]string{"bundle", "import", file, "--id", id}, other, fail.Refused, "the file holds set more"},
		{[]string{"bundle", "import", file}, other, -1, "set site: "},
		{[]string{"bundle", "verify", "site"}, other, -1, "is whole"},
		{[]string{"bundle", "remove", "site", "more", "chart"}, root, -1, "removed set more"},
		{[]string{"bundle", "verify", id}, root, -1, "is whole"},
	} {
		out, err := runBundle(t, c.root, nil, c.args...)
		if err != nil {
			if c.kind != fail.KindOf(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %v; want %q", c.args, err, c.says)
			}
			continue
		}
		if c.kind != -1 || !strings.Contains(out, c.says) {
			t.Errorf("%v: %q; want %q", c.args, out, c.says)
		}
	}
	if left := testkit.Value(os.ReadDir(filepath.Join(root, "blobs", "sha256")))(t); len(left) > 6 {
		t.Errorf("%d files are left", len(left))
	}
}

// pushChart packs a chart and puts it into a registry, as helm push does.
func pushChart(t *testing.T, ref, dir string) {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, file := range []string{"Chart.yaml", "values.yaml", "templates/pod.yaml"} {
		text := testkit.Value(os.ReadFile(filepath.Join(dir, file)))(t)
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: "web/" + file, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write(text)
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	testkit.Must(t, z.Close())
	layer := static.NewLayer(packed.Bytes(), "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.helm.config.v1+json")
	testkit.Must(t, remote.Write(testkit.Value(name.NewTag(ref))(t), testkit.Value(mutate.AppendLayers(img, layer))(t)))
}
