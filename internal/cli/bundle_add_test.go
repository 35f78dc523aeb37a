package cli

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

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
		{[]string{"bundle", "remove", "site", "more"}, root, -1, "removed set more"},
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
