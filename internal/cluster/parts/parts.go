// Package parts takes a part out of a plan: the steps of the infrastructure alone, of the gateways alone, and so on.
//
// It is pure. Which part a step belongs to is whoever's business that planned it.
package parts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// Part is a part of what a cluster is made of.
type Part string

// The parts, in the order in which a new cluster gets them.
const (
	Infrastructure Part = "infrastructure" // machines, networks and load balancers, which the provider makes
	Gateways       Part = "gateways"       // what runs on gateways
	Cluster        Part = "cluster"        // control plane, nodes, pod network, what kubeadm records and installs
	Addons         Part = "addons"         // what is installed into the cluster beside these: the cloud's controllers
	Test           Part = "test"           // the smoke tests
)

// All lists the parts in their order.
func All() []Part { return []Part{Infrastructure, Gateways, Cluster, Addons, Test} }

// Parse returns the parts of these names, each once and in their order; fail.Invalid where there is no such part.
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
	// LeftOut says what else is to be done, a sentence each; empty where nothing is.
	LeftOut []string
	// Waits lists the parts that come first where something that was asked for can't be done yet.
	Waits []Part
}

// Select returns the steps of parts, without those that wait for a step of another part. The steps are a whole plan, each after what it
// needs; of says which part a step belongs to.
func Select(steps []*plan.Step, only []Part, of func(*plan.Step) Part) Selection {
	var s Selection
	first := map[string][]Part{}                   // by the step's ID: which other parts a step that is left out waits for, or is of
	out, waiting := map[Part]int{}, map[Part]int{} // how many are left out for another reason than that, and for that one
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

// Until returns the steps up to where a machine has been rolled: those that act on it, and what they wait for. It returns all where nothing of
// the machine is rolled.
func Until(steps []*plan.Step, machine string) []*plan.Step {
	rolls := func(s *plan.Step) bool { return s.Subject == machine && s.Rolling }
	if !slices.ContainsFunc(steps, rolls) {
		return steps
	}
	wanted := map[string]bool{}
	for _, s := range slices.Backward(steps) { // each comes after what it needs
		if s.Subject == machine || wanted[s.ID] {
			wanted[s.ID] = true
			for _, need := range s.Needs {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s *plan.Step) bool { return !wanted[s.ID] })
}

// Without returns the steps that out does not name. Those that need one of them need what it needs.
func Without(steps []*plan.Step, out func(*plan.Step) bool) []*plan.Step {
	var left []*plan.Step
	instead := map[string][]string{} // by the ID of one that is left out: what it needs
	for _, s := range steps {        // each comes after what it needs
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
