package boot

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestConfigTravels: a Config in JSON keeps every byte.
func TestConfigTravels(t *testing.T) {
	for name, want := range map[string]Config{
		"all": {
			Groups:   map[string]Group{"g": {ID: "g", Profile: "p", Selector: map[string]string{"mac": "52:54:00:00:00:01"}, Metadata: map[string]any{"n": 1.5, "nothing": nil, "list": []any{"a", true}}}},
			Profiles: map[string]Profile{"p": {ID: "p", GenericID: "latin1", Boot: &Kernel{Kernel: "/assets/k", Initrd: []string{"i"}, Args: []string{"a=<b>&c"}}}, "disk": {ID: "disk", Boot: &Kernel{Disk: true}}, "none": {ID: "none"}},
			Ignition: map[string]string{"i": "{}"}, Cloud: map[string]string{"c": "#cloud-config\n"}, Generic: map[string]string{"latin1": "caf\xe9\x00\xff"},
		},
		"empty": {Ignition: map[string]string{}, Cloud: map[string]string{}, Generic: map[string]string{}},
	} {
		var got Config
		testkit.Must(t, json.Unmarshal(testkit.Value(json.Marshal(want))(t), &got))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	var c Config
	if err := json.Unmarshal([]byte(`{"Disk": ["nowhere"]}`), &c); err != nil {
		t.Errorf("a profile that does not exist: %v", err)
	}
}
