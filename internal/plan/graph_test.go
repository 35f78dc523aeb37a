package plan

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

func step(id, subject string) *Step {
	return &Step{ID: id, Subject: subject, Run: func(context.Context, Progress) error { return nil }}
}

func sealed(t *testing.T, g *Graph, rules []Rule) string {
	t.Helper()
	steps, err := g.Seal(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Plan{Steps: steps}).Check(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range steps {
		lines = append(lines, strings.TrimSpace(string(s.Stage)+" "+s.ID+" <- "+strings.Join(s.Needs, " ")))
	}
	return strings.Join(lines, "\n")
}

var houseRules = []Rule{
	{Stage: "ground"},
	{Stage: "walls", Waits: []Stage{"ground"}},
	{Stage: "rooms", Waits: []Stage{"walls"}, Per: SameSubject},
	{Stage: "roof", Waits: []Stage{"walls"}},
	{Stage: "feast", Waits: []Stage{"rooms", "roof"}},
}

func TestSeal(t *testing.T) {
	g := &Graph{}
	g.Add("feast", step("feast", "all"))
	g.Add("walls", step("wall/1", "east"))
	g.Add("walls", step("wall/2", "east"), After("wall/1")...)
	g.Add("walls", step("wall/3", "west"), IfPlanned("wall/1", "window")...)
	g.Add("rooms", step("room/east", "east"))
	g.Add("rooms", step("room/west", "west"))
	g.Add("rooms", step("room/loft", "loft"))
	g.Add("ground", step("dig", "all"))
	own := step("fill", "all")
	own.Needs = []string{"dig"}
	g.Add("ground", own)
	own.ID = "changed afterwards"
	want := `ground dig <-
ground fill <- dig
walls wall/1 <- fill
walls wall/2 <- wall/1
walls wall/3 <- wall/1
rooms room/east <- wall/2
rooms room/west <- wall/3
rooms room/loft <-
feast feast <- room/east room/loft room/west`
	if got := sealed(t, g, houseRules); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSealPassesThrough: the order of stages holds even if a stage between them has no steps.
func TestSealPassesThrough(t *testing.T) {
	g := &Graph{}
	g.Add("ground", step("dig", "all"))
	g.Add("feast", step("feast", "all"))
	if got, want := sealed(t, g, houseRules), "ground dig <-\nfeast feast <- dig"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSealRefuses(t *testing.T) {
	for says, make := range map[string]func(g *Graph){
		"b needs a, which is not in the plan":     func(g *Graph) { g.Add("walls", step("b", ""), After("a")...) },
		"a is in stage cellar, which has no rule": func(g *Graph) { g.Add("cellar", step("a", "")) },
		"two steps have the ID a":                 func(g *Graph) { g.Add("walls", step("a", "")); g.Add("roof", step("a", "")) },
		"in a circle: a → b → a": func(g *Graph) {
			g.Add("ground", step("a", ""), After("b")...)
			g.Add("walls", step("b", ""))
		},
	} {
		g := &Graph{}
		make(g)
		steps, err := g.Seal(houseRules)
		if fail.KindOf(err) != fail.Internal || !strings.Contains(err.Error(), says) || steps != nil {
			t.Errorf("want a defect that says %q, got %v", says, err)
		}
	}
}

// TestSealKeepsOrder: for random graphs, all needs and rules hold in the result, directly or indirectly.
func TestSealKeepsOrder(t *testing.T) {
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		g, stages := &Graph{}, []Stage{"ground", "walls", "rooms", "roof", "feast"}
		before := map[string][]string{}
		type added struct {
			id, subject string
			stage       int
		}
		var all []added
		for i := range 1 + r.Intn(25) {
			a := added{fmt.Sprint("s", i), fmt.Sprint("m", r.Intn(4)), r.Intn(len(stages))}
			var needs []string
			for _, o := range all {
				if o.stage <= a.stage && r.Intn(4) == 0 {
					needs = append(needs, o.id)
				}
			}
			before[a.id] = needs
			g.Add(stages[a.stage], step(a.id, a.subject), After(needs...)...)
			all = append(all, a)
		}
		waits := map[int][]int{1: {0}, 3: {0, 1}, 4: {0, 1, 2, 3}} // for scope All: stages with the earlier stages that they wait for
		for _, a := range all {
			for _, o := range all {
				if slices.Contains(waits[a.stage], o.stage) || a.stage == 2 && o.stage == 1 && a.subject == o.subject {
					before[a.id] = append(before[a.id], o.id)
				}
			}
		}
		steps, err := g.Seal(houseRules)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		above := map[string]map[string]bool{}
		for _, s := range steps {
			above[s.ID] = map[string]bool{}
			for _, n := range s.Needs {
				if above[n] == nil {
					t.Fatalf("seed %d: %s comes before %s, which it needs", seed, s.ID, n)
				}
				if above[s.ID][n] = true; slices.ContainsFunc(s.Needs, func(o string) bool { return above[o][n] }) {
					t.Errorf("seed %d: that %s needs %s follows from its other needs %v", seed, s.ID, n, s.Needs)
				}
				for k := range above[n] {
					above[s.ID][k] = true
				}
			}
		}
		for id, needs := range before {
			for _, n := range needs {
				if !above[id][n] {
					t.Errorf("seed %d: %s does not wait for %s", seed, id, n)
				}
			}
		}
	}
}
