package bundle

import (
	"context"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

func TestBundlesAreFoundByTheirAddons(t *testing.T) {
	l, ctx := newLibrary(t), context.Background()
	plain := addBundle(t, l, "v1.36.3", "")
	m := plain.Manifest
	m.Addons = []string{AddonOpenStack}
	extended, err := l.register(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if extended.ID == plain.ID || extended.Manifest.Title() != "v1.36.3+openstack" || plain.Manifest.Title() != "v1.36.3" {
		t.Errorf("%s is %s, %s is %s", plain.ID, plain.Manifest.Title(), extended.ID, extended.Manifest.Title())
	}
	for want, addons := range map[*Bundle][]string{plain: nil, extended: {AddonOpenStack}} {
		if got, err := l.Find(ctx, "v1.36.3", addons...); err != nil || got.ID != want.ID {
			t.Errorf("with %v: %v, %v", addons, got, err)
		}
	}
	if err := l.Remove(ctx, extended.ID); err != nil {
		t.Fatal(err)
	}
	_, err = l.Find(ctx, "v1.36.3", AddonOpenStack)
	wantKind(t, err, fail.NotFound, "v1.36.3+openstack", "--addons openstack, or use bundle import") // bundle pull makes no bundles with addons
	if err := l.Verify(ctx, plain.ID); err != nil {
		t.Errorf("the plain bundle is damaged: %v", err)
	}
}

func TestUnknownAddons(t *testing.T) {
	l := newLibrary(t)
	_, err := l.Build(context.Background(), BuildOptions{Kubernetes: "v1.36.3", Addons: []string{"azure"}})
	wantKind(t, err, fail.Invalid, `"azure"`, AddonOpenStack)
	_, err = l.Ensure(context.Background(), "v1.36.3", EnsureOptions{Addons: []string{"azure"}})
	wantKind(t, err, fail.Invalid, `"azure"`)
}

func TestSidecarsAreThoseOfTheLockFiles(t *testing.T) {
	for _, rel := range release.All() {
		r := recipe{Release: rel}
		files, err := r.openstack().files()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sidecars() {
			want := strings.Replace(strings.TrimPrefix(s.Source, "module "), "@", " ", 1)
			if !strings.Contains(string(files["go.mod"]), "\t"+want+"\n") {
				t.Errorf("%s: the lock file does not require %s", r.OpenStack, want)
			}
		}
	}
}

func TestAddedComponentsKeepTheirNamesApart(t *testing.T) {
	m := Manifest{Addons: []string{AddonOpenStack}, Components: []Component{{"go", "go1.26.1", "x"}, {"etcd", "v3", "y"}}}
	m.addComponents([]Component{{"go", "go1.26.2", "x"}, {"etcd", "v3", "y"}, {"csi-resizer", "v2", "z"}})
	m.sort()
	var got []string
	for _, c := range m.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	if want := "csi-resizer v2,etcd v3,go go1.26.1,openstack/go go1.26.2"; strings.Join(got, ",") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestBundleHasSets(t *testing.T) {
	m := Manifest{Addons: []string{AddonLocalPath, AddonOpenStack}}
	for want, lists := range map[bool][][]string{true: {nil, {AddonOpenStack}, {AddonOpenStack, AddonLocalPath}}, false: {{catalogue.MetricsServer}, {AddonOpenStack, catalogue.MetricsServer}}} {
		for _, l := range lists {
			if m.Has(l) != want {
				t.Errorf("%v: %v", l, !want)
			}
		}
	}
}
