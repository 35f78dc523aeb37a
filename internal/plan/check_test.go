package plan

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
)

func done(context.Context, Progress) error { return nil }

func TestCheck(t *testing.T) {
	step := func(id string, needs ...string) *Step { return &Step{ID: id, Needs: needs, Run: done} }
	for name, tc := range map[string]struct {
		steps []*Step
		want  []string
	}{
		"empty":       {nil, nil},
		"diamond":     {[]*Step{step("d", "b", "c"), step("b", "a"), step("c", "a", "a"), step("a")}, nil},
		"twice":       {[]*Step{step("a"), step("b"), step("a")}, []string{"two steps have the ID a"}},
		"unknown":     {[]*Step{step("a", "x"), step("b", "y")}, []string{"a needs x", "b needs y"}},
		"itself":      {[]*Step{step("a", "a")}, []string{"circle: a → a"}},
		"cycle":       {[]*Step{step("x", "a"), step("a", "b"), step("b", "c"), step("c", "a")}, []string{"circle: a → b → c → a"}},
		"no run":      {[]*Step{{ID: "a"}}, []string{"a has nothing to run"}},
		"no ID":       {[]*Step{{Title: "boot", Run: done}}, []string{"no ID: boot"}},
		"nil":         {[]*Step{nil}, []string{"number 1 is nil"}},
		"two at once": {[]*Step{step("a", "x"), {ID: "b"}}, []string{"a needs x", "b has nothing"}},
	} {
		err := (&Plan{Cluster: "demo", Steps: tc.steps}).Check()
		if (err != nil) != (tc.want != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error does not say %q: %v", name, w, err)
			}
		}
	}
}

func TestConsents(t *testing.T) {
	p := &Plan{Verb: "apply", Cluster: "demo", Steps: []*Step{
		{ID: "network", Action: Create, Title: "create network 10.1.0.0/24", Subject: "cluster"},
		{ID: "replace/demo-w-1", Action: Replace, Title: "replace demo-w-1", Subject: "demo-w-1", Consent: "replace-machine", Needs: []string{"network"}},
		{ID: "destroy/demo-w-2", Action: Destroy, Title: "destroy demo-w-2", Subject: "demo-w-2", Consent: "delete-data"},
	}}
	if d := cmp.Diff([]string{"delete-data", "replace-machine"}, p.MissingConsents(nil)); d != "" {
		t.Error(d)
	}
	var ran atomic.Bool
	for _, s := range p.Steps {
		s.Run = func(context.Context, Progress) error { ran.Store(true); return nil }
	}
	j := &memory{}
	_, err := Execute(t.Context(), p, Options{Consents: []string{"delete-data"}, Journal: j})
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--consent replace-machine") || !strings.Contains(err.Error(), "replace demo-w-1") {
		t.Errorf("%v", err)
	}
	if strings.Contains(err.Error(), "--consent delete-data") {
		t.Errorf("asks for what was given: %v", err)
	}
	if ran.Load() || len(j.states) > 0 {
		t.Error("something was done without consent")
	}
	var subject string
	for _, s := range p.Steps {
		if s.Consent == "replace-machine" {
			subject = s.Subject
		}
	}
	if got := p.MissingConsents([]string{"delete-data", "replace-machine=other"}); len(got) != 1 {
		t.Errorf("consent to another machine is none to this one: %v", got)
	}
	if got := p.MissingConsents([]string{"delete-data", "replace-machine=" + subject}); len(got) != 0 {
		t.Errorf("consent to %s alone is not enough: %v", subject, got)
	}
	if _, err := Execute(t.Context(), p, Options{Consents: []string{"delete-data", "replace-machine"}}); err != nil || !ran.Load() {
		t.Errorf("%v", err)
	}
}
