package cluster

import (
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
)

// builder collects the steps of one plan.
type builder struct {
	steps []*plan.Step
	ids   map[string]*plan.Step
}

func newBuilder() *builder { return &builder{ids: map[string]*plan.Step{}} }

// add appends steps.
func (b *builder) add(steps ...*plan.Step) {
	for _, s := range steps {
		b.steps = append(b.steps, s)
		b.ids[s.ID] = s
	}
}

// has reports whether the plan has a step.
func (b *builder) has(id string) bool { return b.ids[id] != nil }

// after makes s wait for those of ids that are in the plan: what is not in the plan needs nothing done.
func (b *builder) after(s *plan.Step, ids ...string) {
	for _, id := range ids {
		if id != s.ID && b.has(id) {
			s.Needs = append(s.Needs, id)
		}
	}
	sort.Strings(s.Needs)
	s.Needs = compact(s.Needs)
}

// with lists the IDs in the plan that begin with prefix.
func (b *builder) with(prefix string) []string {
	var out []string
	for _, s := range b.steps {
		if strings.HasPrefix(s.ID, prefix) {
			out = append(out, s.ID)
		}
	}
	return out
}

func compact(sorted []string) []string {
	var out []string
	for i, s := range sorted {
		if i == 0 || s != sorted[i-1] {
			out = append(out, s)
		}
	}
	return out
}

// isManifest reports whether a file is a static pod's manifest, whose change restarts the pod.
func isManifest(file string) bool { return path.Dir(file) == "/etc/kubernetes/manifests" }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
