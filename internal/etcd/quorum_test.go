package etcd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
)

// cluster writes members as letters: V healthy voter, v voter that does not answer, A voter with an alarm, L healthy learner,
// l learner that does not answer. IDs count from 1.
func cluster(letters string) ([]Member, []Health) {
	var members []Member
	var health []Health
	for i, r := range letters {
		id := uint64(i + 1)
		learner := r == 'L' || r == 'l'
		members = append(members, Member{ID: id, Name: fmt.Sprintf("m%d", id), Learner: learner, Started: true})
		h := Health{ID: id, Reachable: r != 'v' && r != 'l', Learner: learner, URL: "https://m"}
		if r == 'A' {
			h.Alarms = []string{"NOSPACE"}
		}
		health = append(health, h)
	}
	return members, health
}

func TestProject(t *testing.T) {
	for _, tc := range []struct {
		cluster string
		action  Action
		id      uint64
		want    Projection // after
		refused string     // part of the message; empty: allowed
	}{
		{"VVV", Stop, 1, Projection{3, 2, 2, 0}, ""},
		{"VVv", Stop, 1, Projection{3, 1, 2, 0}, "lose its quorum: now 2 of 3 voters healthy, 2 needed; afterwards 1 of 3"},
		{"VVv", Stop, 3, Projection{3, 2, 2, 0}, ""}, // broken anyway
		{"VVA", Stop, 1, Projection{3, 1, 2, 0}, "lose its quorum"},
		{"V", Stop, 1, Projection{1, 0, 1, 0}, "lose its quorum"},
		{"v", Stop, 1, Projection{1, 0, 1, 0}, ""},
		{"VVVVV", Stop, 1, Projection{5, 4, 3, 1}, ""},
		{"VVVVv", Stop, 1, Projection{5, 3, 3, 0}, ""},
		{"VVVvv", Stop, 1, Projection{5, 2, 3, 0}, "lose its quorum"},
		{"VVVL", Stop, 4, Projection{3, 3, 2, 1}, ""},

		{"VVV", Drop, 1, Projection{2, 2, 2, 0}, ""},
		{"VVv", Drop, 3, Projection{2, 2, 2, 0}, ""},
		{"VVv", Drop, 1, Projection{2, 1, 2, 0}, "lose its quorum"},
		{"VV", Drop, 1, Projection{1, 1, 1, 0}, ""},
		{"Vv", Drop, 2, Projection{2, 1, 2, 0}, "no quorum now"},
		{"V", Drop, 1, Projection{0, 0, 1, 0}, "last voting member"},
		{"VL", Drop, 1, Projection{0, 0, 1, 0}, "last voting member"},
		{"VL", Drop, 2, Projection{1, 1, 1, 0}, ""},
		{"VVVvv", Drop, 5, Projection{4, 3, 3, 0}, ""},
		{"VVVvv", Drop, 1, Projection{4, 2, 3, 0}, "lose its quorum"},
		{"VVVVVV", Drop, 1, Projection{5, 5, 3, 2}, ""},

		{"VL", Promote, 2, Projection{2, 2, 2, 0}, ""},
		{"Vl", Promote, 2, Projection{2, 1, 2, 0}, "lose its quorum"},
		{"VVvL", Promote, 4, Projection{4, 3, 3, 0}, ""},
		{"VVvl", Promote, 4, Projection{4, 2, 3, 0}, "lose its quorum"},
		{"VvvL", Promote, 4, Projection{3, 1, 2, 0}, "no quorum now"},
		{"VVV", Promote, 1, Projection{3, 3, 2, 1}, ""}, // already votes
	} {
		name := fmt.Sprintf("%s %s %d", tc.cluster, actions[tc.action], tc.id)
		members, health := cluster(tc.cluster)
		got, err := Project(members, health, Change{tc.action, tc.id})
		if tc.refused == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.refused != "" && (fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s: got %v, want refused because of %q", name, err, tc.refused)
		}
		if tc.want != got {
			t.Errorf("%s: %s", name, cmp.Diff(tc.want, got))
		}
	}
}

// TestProjectNeverBreaksQuorum tries every change on every small cluster: allowed changes must leave a quorum, and members with unknown health
// count as broken.
func TestProjectNeverBreaksQuorum(t *testing.T) {
	const kinds = "VvALl"
	allowed := 0
	for n, total := 1, len(kinds); n <= 5; n, total = n+1, total*len(kinds) {
		for code := range total {
			letters := make([]byte, n)
			for i, c := 0, code; i < n; i, c = i+1, c/len(kinds) {
				letters[i] = kinds[c%len(kinds)]
			}
			members, health := cluster(string(letters))
			for id := uint64(1); id <= uint64(n); id++ {
				for _, a := range []Action{Stop, Drop, Promote} {
					p, err := Project(members, health, Change{a, id})
					broken := a == Stop && !healthy(health, id)
					if err == nil && !broken {
						allowed++
						if p.Healthy < p.Quorum || p.Voters == 0 {
							t.Fatalf("%s: %s member %d is allowed, but leaves %s", letters, actions[a], id, p)
						}
					}
					if _, err := Project(members, nil, Change{a, id}); err == nil && a != Stop {
						t.Fatalf("%s: %s member %d is allowed though no health is known", letters, actions[a], id)
					}
				}
			}
		}
	}
	if allowed == 0 {
		t.Error("nothing at all was allowed")
	}
}

func TestProjectUnknownMember(t *testing.T) {
	members, health := cluster("VVV")
	if _, err := Project(members, health, Change{Drop, 9}); fail.KindOf(err) != fail.NotFound {
		t.Errorf("got %v, want not found", err)
	}
}

func TestCheckRemove(t *testing.T) {
	for _, tc := range []struct {
		cluster string
		id      uint64
		seen    MachineView
		refused string
	}{
		{"VVV", 3, Drained, ""},
		{"VVv", 3, Gone, ""},
		{"VVv", 3, Drained, ""},
		{"VVV", 3, Gone, "its etcd answers"},
		{"VVA", 3, Gone, "its etcd answers"},
		{"VVv", 3, Unknown, "the machine is unknown"},
		{"VVv", 3, InUse, "the machine is in use"},
		{"VVv", 1, Drained, "lose its quorum"},
		{"VVVL", 4, Drained, ""},
		{"VVVl", 4, Gone, ""},
		{"VVVl", 4, Unknown, "the machine is unknown"},
	} {
		members, health := cluster(tc.cluster)
		_, err := CheckRemove(members, health, tc.id, tc.seen)
		if tc.refused == "" && err != nil {
			t.Errorf("%s remove %d, machine %s: %v", tc.cluster, tc.id, tc.seen, err)
		}
		if tc.refused != "" && (fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s remove %d, machine %s: got %v, want refused because of %q", tc.cluster, tc.id, tc.seen, err, tc.refused)
		}
	}
}

func TestCheckReplace(t *testing.T) {
	for _, tc := range []struct {
		cluster     string
		old         uint64
		seen        MachineView
		removeFirst bool
		stages      []Projection
		refused     string
	}{
		{"VVv", 3, Gone, false, []Projection{{4, 3, 3, 0}, {3, 3, 2, 1}}, ""},
		{"VVv", 3, Gone, true, []Projection{{2, 2, 2, 0}, {3, 3, 2, 1}}, ""},
		{"VVV", 3, Drained, false, []Projection{{4, 4, 3, 1}, {3, 3, 2, 1}}, ""},
		{"V", 1, Drained, false, []Projection{{2, 2, 2, 0}, {1, 1, 1, 0}}, ""},
		{"V", 1, Drained, true, []Projection{{0, 0, 1, 0}}, "last voting member"},
		{"Vvv", 3, Gone, true, []Projection{{3, 1, 2, 0}}, "no quorum now"},
		{"VVvv", 4, Gone, true, []Projection{{4, 2, 3, 0}}, "no quorum now"},
		{"VVVvv", 5, Gone, true, []Projection{{4, 3, 3, 0}, {5, 4, 3, 1}}, ""},
		{"VVV", 3, Unknown, true, []Projection{{2, 2, 2, 0}}, "unknown"},
	} {
		members, health := cluster(tc.cluster)
		stages, err := CheckReplace(members, health, tc.old, tc.seen, tc.removeFirst)
		name := fmt.Sprintf("%s replace %d, machine %s, remove first %v", tc.cluster, tc.old, tc.seen, tc.removeFirst)
		if d := cmp.Diff(tc.stages, stages); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if tc.refused == "" && err != nil || tc.refused != "" && (fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s: got %v, want refused because of %q", name, err, tc.refused)
		}
	}
}
