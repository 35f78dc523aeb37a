package openstack

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHome: resources begun in one project or region are neither recreated nor destroyed in another.
func TestHome(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc)
	home, err := p.Home(t.Context())
	if err != nil || home != "project r" {
		t.Fatalf("home is %q: %v", home, err)
	}
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	settled := func(o *Options) { o.Home = home }
	if err := apply(t.Context(), fakeProvider(t, f, doc, settled)); err != nil {
		t.Fatal(err)
	}
	f.project = "other"
	for _, do := range []func() error{
		func() error { return apply(t.Context(), fakeProvider(t, f, doc, settled)) },
		func() error { return destroy(t.Context(), fakeProvider(t, f, doc, settled)) },
	} {
		testkit.Fails(t, do(), fail.Refused, "name of other (other) in region r", "project project in region r", "that it was made with")
	}
	f.project, f.regions = "project", []string{"r", "s"}
	doc.Spec.Provider.OpenStack.Region = "s"
	testkit.Fails(t, destroy(t.Context(), fakeProvider(t, f, doc, settled)), fail.Refused, "in region s", "in region r")
	doc.Spec.Provider.OpenStack.Region = "r"
	if err := destroy(t.Context(), fakeProvider(t, f, doc, settled)); err != nil {
		t.Fatal(err)
	}
}

// TestRegions: of several regions the user names one.
func TestRegions(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.regions = []string{"south", "north"}
	_, err := fakeProvider(t, f, doc).Observe(t.Context())
	testkit.Fails(t, err, fail.Invalid, "has 2 regions", "spec.provider.openstack.region", "one of north, south", "OS_REGION_NAME")
	doc.Spec.Provider.OpenStack.Region = "west"
	_, err = fakeProvider(t, f, doc).Observe(t.Context())
	testkit.Fails(t, err, fail.Refused, "no region west", "north, south")
	t.Setenv("OS_REGION_NAME", "north")
	doc.Spec.Provider.OpenStack.Region = ""
	if _, err = fakeProvider(t, f, doc).Observe(t.Context()); err != nil {
		t.Error(err)
	}
}
