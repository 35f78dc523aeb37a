package validation

import (
	"reflect"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// TestSettingsBelongToAnAddon: the key of an addon's settings is the name of one addon, without dashes.
func TestSettingsBelongToAnAddon(t *testing.T) {
	owners := map[string]string{}
	for _, f := range strict.FieldsOf(reflect.TypeFor[v1alpha1.Addon]()) {
		if f.Type.Kind() != reflect.Pointer {
			continue
		}
		owner := ownerOf(f.Key)
		if owner == "" {
			t.Errorf("%s is the key of no addon's settings", f.Key)
		}
		if other, again := owners[owner]; again {
			t.Errorf("%s and %s are settings of %s", other, f.Key, owner)
		}
		owners[owner] = f.Key
	}
	if len(owners) < 10 {
		t.Errorf("only %d addons have settings", len(owners))
	}
}
