// Package parts selects a part of a plan: only the steps of the infrastructure, only those of the gateways, and so on.
//
// It is pure. The planner decides which part a step belongs to.
package parts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// Part is a part of a cluster.
type Part string

// The parts, in the order in which a new cluster gets them.
const (
	Infrastructure Part = "infrastructure" // machines, networks and load balancers, which the provider makes
	Gateways       Part = "gateways"       // everything on gateways
	Cluster        Part = "cluster"        // control plane, nodes, pod network, and what kubeadm records and installs
	Addons         Part = "addons"         // other software in the cluster: the cloud's controllers and addons
	Test           Part = "test"           // the smoke tests
)

// All lists the parts in their order.
func All() []Part { return []Part{Infrastructure, Gateways, Cluster, Addons, Test} }

// Parse returns the named parts, each once and in their order. It returns fail.Invalid for an unknown name.
func Parse(names []string) ([]Part, error) {
	for _, name := range names {
		if !slices.Contains(All(), Part(name)) {
			return nil, fail.New(fail.Invalid, "there is no part %q of a cluster", name).Do("the parts are %s", Words(All()))
		}
	}
	return slices.DeleteFunc(All(), func(p Part) bool { return !slices.Contains(names, string(p)) }), nil
}

// Selection is a part of a plan.
type Selection struct {
	Steps []*plan.Step
	// LeftOut describes the remaining work, one sentence per item.
	LeftOut []string
	// Waits lists the parts that must come first if some of the selected steps can't run yet.
	Waits []Part
}

// Select returns the steps of parts, except those that depend on a step of another part. The steps are a whole plan in dependency order; of
// returns the part of a step.
func Select(steps []*plan.Step, only []Part, of func(*plan.Step) Part) Selection {
	var s Selection
	first := map[string][]Part{}                   // by the ID of an omitted step: the other parts that it waits for or belongs to
	out, waiting := map[Part]int{}, map[Part]int{} // number of omitted steps without, and with, a dependency on another part
	var held []Part
	for _, st := range steps {
		var waits []Part
		for _, need := range st.Needs {
			waits = append(waits, first[need]...)
		}
		switch part := of(st); {
		case !slices.Contains(only, part):
			out[part]++
			first[st.ID] = []Part{part}
		case len(waits) > 0:
			waiting[part]++
			first[st.ID] = waits
			held = append(held, waits...)
		default:
			s.Steps = append(s.Steps, st)
		}
	}
	s.Waits = slices.DeleteFunc(All(), func(p Part) bool { return !slices.Contains(held, p) })
	for _, p := range All() {
		if n := waiting[p]; n > 0 {
			s.LeftOut = append(s.LeftOut, fmt.Sprintf("%s of %s, which can't come before %s", count(n), p, Words(s.Waits)))
		}
		if n := out[p]; n > 0 {
			s.LeftOut = append(s.LeftOut, fmt.Sprintf("%s of %s", count(n), p))
		}
	}
	return s
}

// Until returns the steps up to the rolling change of a machine: those that act on it, and their dependencies. It returns all steps if the
// machine is not rolled.
func Until(steps []*plan.Step, machine string) []*plan.Step {
	rolls := func(s *plan.Step) bool { return s.Subject == machine && s.Rolling }
	if !slices.ContainsFunc(steps, rolls) {
		return steps
	}
	wanted := map[string]bool{}
	for _, s := range slices.Backward(steps) { // each comes after its needs
		if s.Subject == machine || wanted[s.ID] {
			wanted[s.ID] = true
			for _, need := range s.Needs {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s *plan.Step) bool { return !wanted[s.ID] })
}

// Without removes the steps for which out is true. Steps that need one of them inherit its needs.
func Without(steps []*plan.Step, out func(*plan.Step) bool) []*plan.Step {
	var left []*plan.Step
	instead := map[string][]string{} // by the ID of an omitted step: its needs
	for _, s := range steps {        // each comes after its needs
		var needs []string
		for _, need := range s.Needs {
			if others, gone := instead[need]; gone {
				needs = append(needs, others...)
			} else {
				needs = append(needs, need)
			}
		}
		slices.Sort(needs)
		needs = slices.Compact(needs)
		if out(s) {
			instead[s.ID] = needs
			continue
		}
		copied := *s
		copied.Needs = needs
		left = append(left, &copied)
	}
	return left
}

// Words lists parts for people.
func Words(parts []Part) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

func count(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}
