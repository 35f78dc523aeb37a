package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/inside"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRegistryInside renders the server on the first control-plane machines, and the way to it on every node, after the mirrors.
func TestRegistryInside(t *testing.T) {
	doc := document(t, 3, 2, 1)
	doc.Spec.Registry = &v1alpha1.ImageRegistry{}
	doc.Spec.Registries = []v1alpha1.Registry{{Host: "docker.io", Mirrors: []v1alpha1.Mirror{{URL: "https://mirror.example.org"}}}}
	doc.Default()
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	digest := "sha256:" + strings.Repeat("c", 64)
	set := bundle.Set{Schema: 1, Name: v1alpha1.DefaultImageSet, Images: []bundle.SetImage{{Name: "q.io/team/app", Tag: "v1", Digest: digest, Platforms: []string{"linux/amd64"},
		Blobs: []bundle.SetBlob{{Digest: digest, Size: 7, MediaType: "application/vnd.oci.image.manifest.v1+json"}}}}}
	testkit.Must(t, l.Secrets.Put(t.Context(), "images-"+set.Name, testkit.Value(set.Encode())(t))) // as a library that is elsewhere had it
	slots := siteSlots()
	third := slots[0]
	third.Name, third.Index = "demo-cp-3", 3
	for _, s := range append(slots, third) {
		conf := testkit.Value(l.Config(t.Context(), s, machine.Facts{CgroupVersion: 2, Interface: "eth0"}))(t)
		testkit.Must(t, conf.Validate())
		serves := slices.ContainsFunc(conf.Units, func(u machine.Unit) bool { return u.Name == "naupegos-registry.service" })
		if want := s.Name == "demo-cp-1"; serves != want {
			t.Errorf("%s serves images: %v", s.Name, serves)
		}
		if has := slices.ContainsFunc(conf.Binaries, func(b machine.Binary) bool { return strings.HasPrefix(b.Path, inside.BlobDir) && b.Digest == digest }); has != serves {
			t.Errorf("%s has the image: %v", s.Name, has)
		}
		if index := fileOf(conf, "/etc/naupegos/registry/images.json"); serves && (index == nil || !strings.Contains(string(index.Content), "q.io/team/app") || !strings.Contains(string(index.Content), "naupegos.dev/k8s/")) {
			t.Errorf("%s: the index is %s", s.Name, index.Content)
		}
		docker, others := fileOf(conf, site.CertsDir+"/docker.io/hosts.toml"), fileOf(conf, site.CertsDir+"/_default/hosts.toml")
		if s.Role == provider.Gateway {
			if docker != nil || others != nil {
				t.Errorf("%s has a way to registries", s.Name)
			}
			continue
		}
		text := string(docker.Content)
		if at := strings.Index(text, ":5443"); at < strings.Index(text, "mirror.example.org") || strings.Count(text, ":5443") != 2 || !strings.Contains(text, layout.KubeletClientPath(false)) {
			t.Errorf("%s: %s", s.Name, text)
		}
		if strings.Count(string(others.Content), ":5443") != 2 || strings.Contains(string(others.Content), "server =") {
			t.Errorf("%s: %s", s.Name, others.Content)
		}
	}
	doc.Spec.Registry.Sets = []string{"absent"}
	if _, err := l.Config(t.Context(), slots[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}); fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), "bundle add image --set absent") {
		t.Errorf("an absent set: %v", err)
	}
}

// TestTrustedAuthorities restarts API servers when the authorities of their machines change: they read them once.
func TestTrustedAuthorities(t *testing.T) {
	manifest := func(cas ...string) string {
		doc := document(t, 3, 1, 1)
		doc.Spec.Machines.TrustedCAs = cas
		doc.Default()
		l := newLab(t, doc).Running(doc)
		testkit.Must(t, l.LoadTarget(t.Context()))
		conf := testkit.Value(l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}))(t)
		testkit.Must(t, conf.Validate())
		return string(fileOf(conf, "/etc/kubernetes/manifests/kube-apiserver.yaml").Content)
	}
	none, one, two := manifest(), manifest("one"), manifest("one", "two")
	if none == one || one == two {
		t.Error("the API server's pod is the same with other authorities")
	}
	if strings.Count(none, "mountPath") != strings.Count(two, "mountPath") {
		t.Errorf("authorities are mounted twice:\n%s", two)
	}
}
