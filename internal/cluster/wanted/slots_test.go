package wanted

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// groupsOf returns a document with a control plane and pools "a", "b", … of the given sizes.
func groupsOf(t *testing.T, controlPlanes int, pools ...int) *v1alpha1.Cluster {
	t.Helper()
	doc := &v1alpha1.Cluster{Metadata: v1alpha1.Metadata{Name: "demo"}}
	doc.Spec.ControlPlane.Replicas = controlPlanes
	for i, n := range pools {
		doc.Spec.Workers = append(doc.Spec.Workers, v1alpha1.Pool{Name: string(rune('a' + i)), Replicas: &n})
	}
	return doc
}

// existing makes machines of a pool by their indexes.
func existing(role provider.Role, pool, prefix string, indexes ...string) []provider.Machine {
	var out []provider.Machine
	for _, i := range indexes {
		n := 0
		for _, r := range i {
			n = n*10 + int(r-'0')
		}
		out = append(out, provider.Machine{Name: prefix + i, Role: role, Pool: pool, Index: n})
	}
	return out
}

func TestAssign(t *testing.T) {
	w := func(pool string, indexes ...string) []provider.Machine {
		return existing(provider.Worker, pool, "demo-"+pool+"-", indexes...)
	}
	cp := func(indexes ...string) []provider.Machine {
		return existing(provider.ControlPlane, "", "demo-cp-", indexes...)
	}
	bare := func(names ...string) (all []provider.Machine) {
		for _, n := range names {
			all = append(all, provider.Machine{Name: n, State: provider.Partial})
		}
		return all
	}
	join := func(lists ...[]provider.Machine) (all []provider.Machine) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for _, c := range []struct {
		name          string
		controlPlanes int
		pools         []int
		have          []provider.Machine
		decided       Decisions
		want, remove  string
	}{
		{name: "nothing exists", controlPlanes: 1, pools: []int{2}, want: "cp-1 a-1 a-2"},
		{name: "everything exists", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "1", "2")), want: "cp-1 a-1 a-2"},
		{name: "scale up", controlPlanes: 3, pools: []int{3}, have: join(cp("1"), w("a", "1", "2")), want: "cp-1 cp-2 cp-3 a-1 a-2 a-3"},
		{name: "scale down, the highest index first", controlPlanes: 1, pools: []int{1}, have: join(cp("1", "2", "3"), w("a", "1", "2")),
			want: "cp-1 a-1", remove: "cp-3 cp-2 a-2"},
		{name: "indexes are numbers", controlPlanes: 1, pools: []int{9}, have: join(cp("1"), w("a", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1")),
			want: "cp-1 a-1 a-2 a-3 a-4 a-5 a-6 a-7 a-8 a-9", remove: "a-10"},
		{name: "gaps are filled", controlPlanes: 1, pools: []int{3}, have: join(cp("1"), w("a", "1", "3")), want: "cp-1 a-1 a-2 a-3"},
		{name: "a pool goes", controlPlanes: 1, pools: []int{1}, have: join(cp("1"), w("a", "1"), w("old", "1", "2")), want: "cp-1 a-1", remove: "old-2 old-1"},
		{name: "the pool stays, empty", controlPlanes: 1, pools: []int{0}, have: join(cp("1"), w("a", "1")), want: "cp-1", remove: "a-1"},
		{name: "gateways go", controlPlanes: 1, have: join(cp("1"), existing(provider.Gateway, "", "demo-gw-", "1", "2")), want: "cp-1", remove: "gw-2 gw-1"},
		{name: "one that is named goes first", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "1", "2", "3")), decided: Decisions{"demo-a-1": Remove},
			want: "cp-1 a-2 a-3", remove: "a-1"},
		{name: "one that is named goes, another comes", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "1", "2")), decided: Decisions{"demo-a-1": Remove},
			want: "cp-1 a-2 a-3", remove: "a-1"},
		{name: "one that is replaced keeps its slot", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "1", "2")), decided: Decisions{"demo-a-1": Replace},
			want: "cp-1 a-1 a-2"},
		{name: "one that is replaced goes where it is too many", controlPlanes: 1, pools: []int{1}, have: join(cp("1"), w("a", "1", "2")),
			decided: Decisions{"demo-a-2": Replace}, want: "cp-1 a-1", remove: "a-2"},
		{name: "half-made ones of which only the name is known", controlPlanes: 1, pools: []int{2},
			have: join(bare("demo-cp-1", "demo-a-2", "demo-a-3", "demo-old-1", "nonsense"), w("a", "1")), want: "cp-1 a-1 a-2", remove: "old-1 nonsense a-3"},
		{name: "a half-made one that is to go", controlPlanes: 1, pools: []int{1}, have: join(cp("1"), bare("demo-a-1")), decided: Decisions{"demo-a-1": Remove},
			want: "cp-1 a-2", remove: "a-1"},
		{name: "one more while the others are changed", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "1", "2", "3")), decided: Decisions{"demo-a-3": Surge},
			want: "cp-1 a-1 a-2 a-3"},
		{name: "one more that was never made, beside one that is to be", controlPlanes: 1, pools: []int{2}, have: join(cp("1"), w("a", "2")), decided: Decisions{"demo-a-1": Surge},
			want: "cp-1 a-1 a-2 a-3"},
		{name: "one more in a pool that is to be smaller", controlPlanes: 1, pools: []int{1}, have: join(cp("1"), w("a", "1", "2", "3")), decided: Decisions{"demo-a-1": Surge},
			want: "cp-1 a-1 a-2", remove: "a-3"},
		{name: "a decision about no machine", controlPlanes: 1, have: cp("1"), decided: Decisions{"demo-cp-7": Remove, "nonsense": Replace}, want: "cp-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, remove := Assign(groupsOf(t, c.controlPlanes, c.pools...), c.have, c.decided)
			var got, gone []string
			for _, s := range want {
				got = append(got, strings.TrimPrefix(s.Name, "demo-"))
			}
			for _, m := range remove {
				gone = append(gone, strings.TrimPrefix(m.Name, "demo-"))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("wanted: %s, want %s", g, c.want)
			}
			if g := strings.Join(gone, " "); g != c.remove {
				t.Errorf("to remove: %s, want %s", g, c.remove)
			}
		})
	}
}
