package wanted

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/provider"
)

func TestWithSurge(t *testing.T) {
	have := func(indexes ...string) []provider.Machine {
		return existing(provider.Worker, "a", "demo-a-", indexes...)
	}
	for name, c := range map[string]struct {
		max           int
		have          []provider.Machine
		decided, want Decisions
		rolling       Rolling
	}{
		"none is wanted":              {max: 0, have: have("1", "2", "3"), rolling: Rolling{Away: map[string]int{"a": 3}}, want: Decisions{}},
		"nothing is changed":          {max: 2, have: have("1", "2", "3"), want: Decisions{}},
		"as many as may be":           {max: 2, have: have("1", "2", "3"), rolling: Rolling{Away: map[string]int{"a": 3}}, want: Decisions{"demo-a-4": Surge, "demo-a-5": Surge}},
		"no more than are changed":    {max: 9, have: have("1", "2", "3"), rolling: Rolling{Away: map[string]int{"a": 1}}, want: Decisions{"demo-a-4": Surge}},
		"beside those to be made":     {max: 1, have: have("1", "3"), rolling: Rolling{Away: map[string]int{"a": 2}}, want: Decisions{"demo-a-4": Surge}},
		"beside a foreign node":       {max: 1, have: have("1", "2", "3"), rolling: Rolling{Away: map[string]int{"a": 2}, Nodes: map[string]bool{"demo-a-4": true}}, want: Decisions{"demo-a-5": Surge}},
		"one that goes serves":        {max: 1, have: have("1", "2", "3", "4"), rolling: Rolling{Away: map[string]int{"a": 2}, Going: map[string]bool{"demo-a-4": true}}, want: Decisions{}},
		"one that goes does not":      {max: 1, have: have("1", "2", "3", "4"), rolling: Rolling{Away: map[string]int{"a": 2}}, want: Decisions{"demo-a-5": Surge}},
		"it goes on":                  {max: 1, have: have("1", "2", "3", "4"), decided: Decisions{"demo-a-4": Surge}, rolling: Rolling{Away: map[string]int{"a": 1}}, want: Decisions{"demo-a-4": Surge}},
		"it was not made yet":         {max: 1, have: have("1", "2", "3"), decided: Decisions{"demo-a-4": Surge}, rolling: Rolling{Away: map[string]int{"a": 3}}, want: Decisions{"demo-a-4": Surge}},
		"it is done":                  {max: 1, have: have("1", "2", "3", "4"), decided: Decisions{"demo-a-4": Surge}, want: Decisions{"demo-a-4": Remove}},
		"it is done, one index early": {max: 1, have: have("1", "2", "3", "4"), decided: Decisions{"demo-a-2": Surge}, want: Decisions{"demo-a-2": Remove}},
		"it never was":                {max: 1, have: have("1", "2", "3"), decided: Decisions{"demo-a-4": Surge}, want: Decisions{}},
		"it was lost, not its node":   {max: 1, have: have("1", "2", "3"), decided: Decisions{"demo-a-4": Surge}, rolling: Rolling{Away: map[string]int{"a": 3}, Nodes: map[string]bool{"demo-a-4": true}}, want: Decisions{"demo-a-5": Surge}},
		"fewer are wanted by now":     {max: 1, have: have("1", "2", "3", "4", "5"), decided: Decisions{"demo-a-4": Surge, "demo-a-5": Surge}, rolling: Rolling{Away: map[string]int{"a": 3}}, want: Decisions{"demo-a-4": Surge, "demo-a-5": Remove}},
		"its pool is gone":            {max: 1, have: have("1", "2", "3"), decided: Decisions{"demo-x-4": Surge}, want: Decisions{}},
		"others stay as they are":     {max: 1, have: have("1", "2", "3"), decided: Decisions{"demo-a-1": Replace}, rolling: Rolling{Away: map[string]int{"a": 1}}, want: Decisions{"demo-a-1": Replace, "demo-a-4": Surge}},
	} {
		doc := groupsOf(t, 1, 3)
		doc.Spec.Updates.MaxSurge = &c.max
		if d := cmp.Diff(c.want, c.decided.WithSurge(doc, c.have, c.rolling)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
