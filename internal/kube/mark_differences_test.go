package kube

import (
	"slices"
	"testing"
)

// TestMarkDifferences: exactly the changes that Mark would make.
func TestMarkDifferences(t *testing.T) {
	n := NodeInfo{Name: "w", Labels: map[string]string{"theirs": "1", "old": "x", "same": "s", "other": "a"}, Taints: []Taint{{Key: "t", Value: "1", Effect: "NoSchedule"}, {Key: "theirs", Effect: "NoExecute"}},
		Annotations: map[string]string{OwnedLabels: "old,other,same", OwnedTaints: "t:NoSchedule"}}
	m := Marks{Labels: map[string]string{"same": "s", "other": "b", "new": ""}, Taints: []Taint{{Key: "u", Effect: "NoSchedule"}}, ProviderID: "cloud://1"}
	var got []string
	for _, d := range MarkDifferences(n, m) {
		got = append(got, d.Line())
	}
	want := []string{`label new: (none) -> ""`, "label old: x -> (none)", "label other: a -> b", "taint t:NoSchedule: 1 -> (none)", `taint u:NoSchedule: (none) -> ""`, "provider ID: (none) -> cloud://1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if d := MarkDifferences(n, Marks{Labels: map[string]string{"old": "x", "other": "a", "same": "s"}, Taints: []Taint{{Key: "t", Value: "1", Effect: "NoSchedule"}}}); d != nil {
		t.Errorf("%+v", d)
	}
}
