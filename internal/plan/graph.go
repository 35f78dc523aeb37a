package plan

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Stage names a phase of a plan. The rules with which a Graph is sealed define the stages and their order.
type Stage string

// Scope says for which steps of the stages in a rule a step waits.
type Scope int

// The scopes of a rule.
const (
	All         Scope = iota // all steps; if a stage has no steps, the steps for which it would have waited
	SameSubject              // only steps with the same subject as the waiting step
)

// Rule makes the steps of a stage wait for those of other stages. Every stage has at least one rule; stages are printed in the order of the rules.
type Rule struct {
	Stage Stage
	Waits []Stage
	Per   Scope
}

// Need is a step that another step waits for, in addition to its stage's rules.
type Need struct {
	ID        string
	IfPlanned bool // if the plan has no such step, there is nothing to wait for; otherwise that is a defect
}

// After returns needs for steps that the plan must contain.
func After(ids ...string) []Need { return needs(false, ids) }

// IfPlanned returns needs for steps that the plan may contain.
func IfPlanned(ids ...string) []Need { return needs(true, ids) }

func needs(ifPlanned bool, ids []string) []Need {
	out := make([]Need, len(ids))
	for i, id := range ids {
		out[i] = Need{ID: id, IfPlanned: ifPlanned}
	}
	return out
}

// Graph collects steps by stage. It keeps copies, so later changes to an added step have no effect. The zero Graph is empty.
type Graph struct {
	vertices []vertex
}

// vertex is a step with the arguments of its Add.
type vertex struct {
	Step
	needs []Need
}

// Add adds a step to a stage. The step waits for needs and for its own Step.Needs, which the plan must contain.
func (g *Graph) Add(stage Stage, s *Step, needs ...Need) {
	v := vertex{*s, slices.Concat(After(s.Needs...), needs)}
	v.Stage = stage
	g.vertices = append(g.vertices, v)
}

// Empty reports whether the graph has no steps.
func (g *Graph) Empty() bool { return len(g.vertices) == 0 }

// Seal orders the steps by needs and rules, and returns them so that each comes after the steps that it needs, and, as far as possible, stage by
// stage. It removes needs from Step.Needs that follow from others. A stage without a rule, a duplicate ID, an unknown need and a cycle are defects of
// the planner, and the error says so.
func (g *Graph) Seal(rules []Rule) ([]*Step, error) {
	s := sealing{graph: g, rules: rules, index: map[string]int{}, stage: map[Stage][]int{}, needs: make([]map[int]bool, len(g.vertices))}
	s.sort()
	if s.explicit(); len(s.faults) == 0 {
		s.implied()
	}
	if len(s.faults) > 0 {
		return nil, defect("", s.faults)
	}
	return s.steps()
}

// defect returns the error for a plan that can't be executed because of the planner's faults.
func defect(cluster string, faults []string) error {
	return fail.New(fail.Internal, "the plan is faulty: %s", strings.Join(faults, "; ")).At(cluster).
		Do("this is a defect of naupegos; please report it")
}

// sealing is the state of one Seal. Steps are numbered by stage, and within a stage in the order of Add.
type sealing struct {
	graph  *Graph
	rules  []Rule
	index  map[string]int  // by ID
	stage  map[Stage][]int // numbers of its steps
	needs  []map[int]bool  // by step
	faults []string
}

// sort sorts the steps by stage.
func (s *sealing) sort() {
	rank := map[Stage]int{}
	for i, r := range s.rules {
		if _, ok := rank[r.Stage]; !ok {
			rank[r.Stage] = i
		}
	}
	s.graph.vertices = slices.Clone(s.graph.vertices)
	slices.SortStableFunc(s.graph.vertices, func(a, b vertex) int { return rank[a.Stage] - rank[b.Stage] })
	for i, v := range s.graph.vertices {
		if _, ok := rank[v.Stage]; !ok {
			s.faults = append(s.faults, v.ID+" is in stage "+string(v.Stage)+", which has no rule")
		}
		if _, twice := s.index[v.ID]; twice {
			s.faults = append(s.faults, "two steps have the ID "+v.ID)
		}
		s.index[v.ID] = i
		s.stage[v.Stage] = append(s.stage[v.Stage], i)
		s.needs[i] = map[int]bool{}
	}
}

// explicit adds the needs that were given to Add.
func (s *sealing) explicit() {
	for i, v := range s.graph.vertices {
		for _, n := range v.needs {
			j, ok := s.index[n.ID]
			switch {
			case ok && j != i:
				s.needs[i][j] = true
			case !ok && !n.IfPlanned:
				s.faults = append(s.faults, v.ID+" needs "+n.ID+", which is not in the plan")
			}
		}
	}
}

// implied adds the needs that follow from the rules: the first steps of a stage wait for the last steps of earlier stages.
func (s *sealing) implied() {
	first, last := map[Stage][]int{}, map[Stage][]int{}
	for stage, steps := range s.stage {
		first[stage], last[stage] = s.ends(steps)
	}
	for _, r := range s.rules {
		if r.Per == SameSubject {
			s.perSubject(r)
			continue
		}
		for _, j := range s.lasts(r.Waits, last, map[Stage]bool{}) {
			for _, i := range first[r.Stage] {
				s.needs[i][j] = true
			}
		}
	}
}

// perSubject makes a stage's steps wait for those with the same subject.
func (s *sealing) perSubject(r Rule) {
	for _, i := range s.stage[r.Stage] {
		for _, stage := range r.Waits {
			for _, j := range s.stage[stage] {
				if s.graph.vertices[i].Subject == s.graph.vertices[j].Subject {
					s.needs[i][j] = true
				}
			}
		}
	}
}

// ends returns a stage's first steps, which wait for no other step of the stage, and its last steps, for which no other step of the stage waits.
func (s *sealing) ends(steps []int) (first, last []int) {
	needed := map[int]bool{}
	for _, i := range steps {
		inner := slices.DeleteFunc(slices.Clone(steps), func(j int) bool { return !s.needs[i][j] })
		for _, j := range inner {
			needed[j] = true
		}
		if len(inner) == 0 {
			first = append(first, i)
		}
	}
	return first, slices.DeleteFunc(slices.Clone(steps), func(i int) bool { return needed[i] })
}

// lasts returns the last steps of stages. A stage without steps is replaced by the stages before it.
func (s *sealing) lasts(stages []Stage, last map[Stage][]int, seen map[Stage]bool) []int {
	var out []int
	for _, stage := range stages {
		if seen[stage] {
			continue
		}
		seen[stage] = true
		if len(s.stage[stage]) > 0 {
			out = append(out, last[stage]...)
			continue
		}
		for _, r := range s.rules {
			if r.Stage == stage && r.Per == All {
				out = append(out, s.lasts(r.Waits, last, seen)...)
			}
		}
	}
	return out
}

// steps returns the steps in an executable order, without needs that follow from others.
func (s *sealing) steps() ([]*Step, error) {
	order := s.order()
	if len(order) < len(s.graph.vertices) {
		p := &Plan{}
		for i := range s.graph.vertices {
			p.Steps = append(p.Steps, s.step(i, s.needs[i]))
		}
		return nil, p.Check() // names the cycle
	}
	above := make([]big.Int, len(order)) // by step: a bit for each step that it waits for, directly or indirectly
	var out []*Step
	for _, i := range order {
		for j := range s.needs[i] {
			above[i].Or(&above[i], &above[j])
		}
		direct := maps.Clone(s.needs[i])
		maps.DeleteFunc(direct, func(j int, _ bool) bool { return above[i].Bit(j) == 1 })
		for j := range direct {
			above[i].SetBit(&above[i], j, 1)
		}
		out = append(out, s.step(i, direct))
	}
	return out, nil
}

// step returns a copy of a step with the given needs.
func (s *sealing) step(i int, needs map[int]bool) *Step {
	c := s.graph.vertices[i].Step
	c.Needs = nil
	for j := range needs {
		c.Needs = append(c.Needs, s.graph.vertices[j].ID)
	}
	slices.Sort(c.Needs)
	return &c
}

// order returns the steps so that each comes after its needs, and otherwise in their order. Steps in a cycle, or behind one, are left out.
func (s *sealing) order() []int {
	left, done := make([]int, len(s.graph.vertices)), map[int]bool{}
	for i := range left {
		left[i] = i
	}
	ready := func(i int) bool {
		for j := range s.needs[i] {
			if !done[j] {
				return false
			}
		}
		return true
	}
	var out []int
	for k := slices.IndexFunc(left, ready); k >= 0; k = slices.IndexFunc(left, ready) {
		out, done[left[k]] = append(out, left[k]), true
		left = slices.Delete(left, k, k+1)
	}
	return out
}
