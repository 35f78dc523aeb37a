package kube

import (
	"slices"
	"testing"
)

// TestUnmarked: Unmarked names exactly the changes that Mark would make.
func TestUnmarked(t *testing.T) {
	owned := map[string]string{OwnedLabels: "tier", OwnedTaints: "gpu:NoSchedule"}
	marks := Marks{Labels: map[string]string{"tier": "web"}, Taints: []Taint{{Key: "gpu", Value: "a", Effect: "NoSchedule"}}}
	taint := []Taint{{Key: "gpu", Value: "a", Effect: "NoSchedule"}}
	for name, c := range map[string]struct {
		node  NodeInfo
		marks Marks
		want  []string
	}{
		"as wanted":         {NodeInfo{Labels: map[string]string{"tier": "web"}, Taints: taint, Annotations: owned}, marks, nil},
		"others' label":     {NodeInfo{Labels: map[string]string{"tier": "web", "theirs": "x"}, Taints: taint, Annotations: owned}, marks, nil},
		"label removed":     {NodeInfo{Taints: taint, Annotations: owned}, marks, []string{"label tier: (none) -> web"}},
		"label changed":     {NodeInfo{Labels: map[string]string{"tier": "db"}, Taints: taint, Annotations: owned}, marks, []string{"label tier: db -> web"}},
		"label emptied":     {NodeInfo{Labels: map[string]string{"tier": ""}, Taints: taint, Annotations: owned}, marks, []string{`label tier: "" -> web`}},
		"label not wanted":  {NodeInfo{Labels: map[string]string{"tier": "web"}, Taints: taint, Annotations: owned}, Marks{Taints: marks.Taints}, []string{"label tier: web -> (none)"}},
		"taint removed":     {NodeInfo{Labels: map[string]string{"tier": "web"}, Annotations: owned}, marks, []string{"taint gpu:NoSchedule: (none) -> a"}},
		"taint not wanted":  {NodeInfo{Labels: map[string]string{"tier": "web"}, Taints: taint, Annotations: owned}, Marks{Labels: marks.Labels}, []string{"taint gpu:NoSchedule: a -> (none)"}},
		"annotation gone":   {NodeInfo{Labels: map[string]string{"tier": "web"}, Taints: taint}, marks, []string{"annotation naupegos.dev/owned-labels: (none) -> tier", "annotation naupegos.dev/owned-taints: (none) -> gpu:NoSchedule"}},
		"provider ID":       {NodeInfo{}, Marks{ProviderID: "naupegos://demo-1"}, []string{"provider ID: (none) -> naupegos://demo-1"}},
		"provider ID stays": {NodeInfo{ProviderID: "other"}, Marks{ProviderID: "naupegos://demo-1"}, nil},
	} {
		got := Unmarked(c.node, c.marks)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if Marked(c.node, c.marks) != (len(got) == 0) {
			t.Errorf("%s: Marked disagrees with %q", name, got)
		}
	}
}
