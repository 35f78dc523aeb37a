package main

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// TestVariables checks that the bench sets exactly the variables that the configuration declares.
func TestVariables(t *testing.T) {
	main, err := configuration.ReadFile("tofu/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^variable "([a-z_]+)"`).FindAllSubmatch(main, -1) {
		declared = append(declared, string(m[1]))
	}
	slices.Sort(declared)
	s := size{controlPlanes: 3, workers: 2, flavor: "f", image: "i", volume: 2, external: "public"}
	vars, err := variables(s, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if given := slices.Sorted(maps.Keys(vars)); !slices.Equal(given, declared) {
		t.Errorf("main.tf declares %v, the bench sets %v", declared, given)
	}
	if n := len(vars["machines"].(object)); n != 5 {
		t.Errorf("%d machines, want 5", n)
	}
	doc, err := s.document()
	if err != nil {
		t.Fatal(err)
	}
	if doc.Spec.ControlPlane.Replicas != 3 || doc.WorkerCount() != 2 {
		t.Errorf("the document has %d and %d machines, want 3 and 2", doc.Spec.ControlPlane.Replicas, doc.WorkerCount())
	}
}

func TestNumbers(t *testing.T) {
	if got, err := numbers("10,32"); err != nil || !slices.Equal(got, []int{10, 32}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "10,x"} {
		if _, err := numbers(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
