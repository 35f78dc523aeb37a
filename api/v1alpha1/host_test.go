package v1alpha1

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
)

// suggests matches names of fields that may refer to the host or its network.
var suggests = regexp.MustCompile(`(?i)(file|path|dir|directory|url|uri|address|endpoint|hosts?|server|servers|key|keys|identity|credentials?|cloud|port|ca|cert|certificate|token|secret|password|image|vip|floatingip|dnsname|socket|proxy|registry|mirror|chart|version|env)$`)

// TestEveryFieldThatMayNameTheHostIsTagged: a field whose name suggests a resource of the host has a tag that says what it does.
func TestEveryFieldThatMayNameTheHostIsTagged(t *testing.T) {
	seen := map[HostUse]int{}
	strict.Walk(reflect.TypeFor[Cluster](), "", func(path string, parent reflect.Type, f strict.Field) {
		use, tagged := parent.Field(f.Index).Tag.Lookup("host")
		if tagged && !slices.Contains(hostUses, HostUse(use)) {
			t.Errorf("%s: the tag host:%q is none of %q", path, use, hostUses)
		}
		seen[HostUse(use)]++
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !strict.IsText(e) || e.Kind() == reflect.Map || path == "apiVersion" {
			return
		}
		if suggests.MatchString(f.Key) && !tagged && len(f.Enum) == 0 && f.Key != "apiVersion" {
			t.Errorf("%s: the name suggests a resource of the host: give the field a tag host, none where it is harmless", path)
		}
	})
	for _, use := range hostUses {
		if seen[use] == 0 {
			t.Errorf("no field is tagged %s", use)
		}
	}
}
