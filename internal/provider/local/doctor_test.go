package local

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
)

// TestReport checks the report of each part, with remedies. Shortages that a smaller cluster could live with are warnings.
func TestReport(t *testing.T) {
	h := goodHost()
	h.uid, h.meminfo = 1000, "MemAvailable: 1000 kB\n"
	found := map[string]provider.Check{}
	for _, c := range h.report(hostNeeds{machines: []provider.Role{provider.ControlPlane}, roots: []string{"/"}}) {
		found[c.Name] = c
	}
	for name, want := range map[string]provider.Check{
		"platform": {Result: provider.Fine, Detail: "linux/"},
		"root":     {Result: provider.Failing, Detail: "sudo -E"},
		"memory":   {Result: provider.Warning, Detail: "use fewer machines"},
		"cgroups":  {Result: provider.Fine, Detail: "cpuset"},
	} {
		if got := found[name]; got.Result != want.Result || !strings.Contains(got.Detail, want.Detail) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	settings, err := checkSettings()
	if err != nil || settings.Result != provider.Fine || settings.Detail == "" {
		t.Errorf("%+v, %v", settings, err)
	}
}
