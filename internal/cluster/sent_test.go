package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReleaseIsSentInTurn: where machines lack much of a release, only one disk that has a member of etcd is written to at a time.
func TestReleaseIsSentInTurn(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	for name, want := range map[string]map[string][]string{
		"containers of one host": {
			"configure/demo-cp-2": nil, "configure/demo-cp-3": {"configure/demo-cp-2"}, "configure/demo-cp-1": {"configure/demo-cp-3"},
			"configure/demo-a-1": {"configure/demo-cp-1"}, "configure/demo-a-2": {"configure/demo-a-1"},
		},
		"machines of their own": {
			"configure/demo-cp-2": nil, "configure/demo-cp-3": {"configure/demo-cp-2"}, "configure/demo-cp-1": {"configure/demo-cp-3"},
			"configure/demo-a-1": nil, "configure/demo-a-2": nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := upgraded(t, old)
			if l.Doc = documentOf(t, next); name == "machines of their own" {
				l.Prov = machinesOfTheirOwn{l.cloud}
				testkit.Must(t, l.Facts.Set(t.Context(), memory.SharedKernel, "true")) // for the same configuration
			}
			testkit.Must(t, l.advanceReleases(t.Context()))
			o := l.observed(nil, controlPlanes(3)...)
			o.Health[0].Leader, o.Recorded = true, true
			for _, seen := range o.Machines {
				if seen.Report != nil && len(seen.Report.Changes) > 0 {
					seen.Report.Missing = []string{"sha256:00"}
				}
			}
			got := map[string][]string{}
			for _, s := range testkit.Value(l.steps(o, nil))(t) {
				if strings.HasPrefix(s.ID, "configure/") {
					got[s.ID] = s.Needs
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// machinesOfTheirOwn share nothing.
type machinesOfTheirOwn struct{ *cloud }

func (machinesOfTheirOwn) Traits() provider.Traits { return provider.Traits{} }
