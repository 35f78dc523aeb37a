package parts

import (
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// TestSelect takes parts out of a plan; the subject of each step is its part.
func TestSelect(t *testing.T) {
	steps := []*plan.Step{
		{ID: "machine/a", Subject: "infrastructure"},
		{ID: "machine/gw", Subject: "infrastructure"},
		{ID: "settle", Subject: "cluster"},
		{ID: "gateway", Subject: "gateways", Needs: []string{"machine/gw"}},
		{ID: "configure/a", Subject: "cluster", Needs: []string{"machine/a", "settle"}},
		{ID: "api", Subject: "cluster", Needs: []string{"configure/a", "gateway"}},
		{ID: "smoke", Subject: "test", Needs: []string{"api"}},
	}
	for only, want := range map[Part]struct{ ids, left, waits []string }{
		Infrastructure: {[]string{"machine/a", "machine/gw"}, []string{"1 step of gateways", "3 steps of cluster", "1 step of test"}, nil},
		Gateways:       {nil, []string{"2 steps of infrastructure", "1 step of gateways, which can't come before infrastructure", "3 steps of cluster", "1 step of test"}, []string{"infrastructure"}},
		Cluster: {[]string{"settle"}, []string{"2 steps of infrastructure", "1 step of gateways", "2 steps of cluster, which can't come before infrastructure, gateways", "1 step of test"},
			[]string{"infrastructure", "gateways"}},
		Addons: {nil, []string{"2 steps of infrastructure", "1 step of gateways", "3 steps of cluster", "1 step of test"}, nil},
		Test:   {nil, []string{"2 steps of infrastructure", "1 step of gateways", "3 steps of cluster", "1 step of test, which can't come before cluster"}, []string{"cluster"}},
	} {
		got := Select(steps, []Part{only}, func(s *plan.Step) Part { return Part(s.Subject) })
		var ids, waits []string
		for _, s := range got.Steps {
			ids = append(ids, s.ID)
		}
		for _, p := range got.Waits {
			waits = append(waits, string(p))
		}
		if !slices.Equal(ids, want.ids) || !slices.Equal(got.LeftOut, want.left) || !slices.Equal(waits, want.waits) {
			t.Errorf("%s: %q, left out %q, waits for %q", only, ids, got.LeftOut, waits)
		}
	}
	if got := Select(steps, All(), func(s *plan.Step) Part { return Part(s.Subject) }); len(got.Steps) != len(steps) || got.LeftOut != nil {
		t.Errorf("all parts: %+v", got)
	}
}

// TestUntil ends with the rolling change of a machine: the result includes its dependencies and excludes its dependents.
func TestUntil(t *testing.T) {
	steps := []*plan.Step{
		{ID: "snapshot", Subject: "cluster"},
		{ID: "configure/a", Subject: "a", Rolling: true, Needs: []string{"snapshot"}},
		{ID: "health/a", Subject: "a", Needs: []string{"configure/a"}},
		{ID: "configure/b", Subject: "b", Rolling: true, Needs: []string{"health/a"}},
		{ID: "health/b", Subject: "b", Needs: []string{"configure/b"}},
		{ID: "configure/c", Subject: "c", Rolling: true, Needs: []string{"health/b"}},
		{ID: "quiet/d", Subject: "d"},
		{ID: "node/b", Subject: "b", Needs: []string{"configure/b"}},
	}
	for machine, want := range map[string][]string{
		"a": {"snapshot", "configure/a", "health/a"},
		"b": {"snapshot", "configure/a", "health/a", "configure/b", "health/b", "node/b"},
		"d": {"snapshot", "configure/a", "health/a", "configure/b", "health/b", "configure/c", "quiet/d", "node/b"},
	} {
		var got []string
		for _, s := range Until(steps, machine) {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("until %s: %q", machine, got)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := Parse([]string{"test", "gateways", "test"})
	if err != nil || !slices.Equal(got, []Part{Gateways, Test}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Parse([]string{"gateway"}); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a part that there is not: %v", err)
	}
}

// TestWithout removes steps from a plan: their dependents inherit their needs.
func TestWithout(t *testing.T) {
	steps := []*plan.Step{
		{ID: "a", Subject: "m1"},
		{ID: "b", Subject: "m2", Needs: []string{"a"}},
		{ID: "c", Subject: "m2", Needs: []string{"b"}},
		{ID: "d", Subject: "m1", Needs: []string{"c", "a"}},
		{ID: "e", Subject: "m3", Needs: []string{"d"}},
	}
	got := Without(steps, func(s *plan.Step) bool { return s.Subject == "m2" })
	if len(got) != 3 || got[1].ID != "d" || !slices.Equal(got[1].Needs, []string{"a"}) || !slices.Equal(got[2].Needs, []string{"d"}) {
		t.Errorf("%v", got)
	}
	if !slices.Equal(steps[3].Needs, []string{"c", "a"}) {
		t.Error("the plan that it is taken out of has changed")
	}
}
