package dpkg

import (
	"maps"
	"slices"
	"testing"
)

// TestHas compares Has with Installed, which reads all of the database.
func TestHas(t *testing.T) {
	const status = "Package: a\nStatus: install ok installed\nDescription: text\n Package: c\n\n" +
		"Status: hold ok installed\nPackage: ab\n\n" +
		"Package: b\nStatus: deinstall ok config-files\nArchitecture: i386\n\nPackage: b\nStatus: install ok installed\n\n" +
		"Package: c\nStatus: deinstall ok config-files\nRecommended-Package: a-c\n\nPackage: last\nStatus: install ok installed"
	want := Installed(status)
	if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, []string{"a", "ab", "b", "last"}) {
		t.Errorf("installed: %v", got)
	}
	for _, name := range []string{"", "a", "ab", "b", "c", "a-c", "last", "las", "none"} {
		if got := Has(status, name); got != want[name] {
			t.Errorf("%q: %t, want %t", name, got, want[name])
		}
	}
}
