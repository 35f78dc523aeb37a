package release

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

func TestReleases(t *testing.T) {
	var minors []string
	for i, r := range All() {
		if _, ok := Parse(r.Kubernetes); !ok {
			t.Errorf("%q is not a version", r.Kubernetes)
		}
		if i > 0 && Compare(All()[i-1].Kubernetes, r.Kubernetes) <= 0 {
			t.Errorf("%s is not older than the one before", r.Kubernetes)
		}
		if _, ok := Of(r.Kubernetes); !ok {
			t.Errorf("the minor of %s has no contract", r.Kubernetes)
		}
		if got, ok := Find(r.Kubernetes); !ok || got != r {
			t.Errorf("%s is not found", r.Kubernetes)
		}
		minors = append(minors, MinorOf(r.Kubernetes))
	}
	slices.Reverse(minors)
	if got := slices.Compact(minors); !slices.Equal(got, Minors()) {
		t.Errorf("there are recipes for the minors %v, contracts for %v", got, Minors())
	}
	if _, ok := Find(Default); !ok {
		t.Errorf("there is no recipe for the default, %s", Default)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]string{"v1.36.3": "1.36", "v1.5.0": "1.5", "1.36.3": "", "v1.36": "", "v1.036.3": "", "v1.36.3-rc.1": "", "": ""} {
		if got := MinorOf(v); got != want {
			t.Errorf("%q: %q", v, got)
		}
	}
	if Compare("v1.36.10", "v1.36.9") <= 0 || Compare("v1.9.1", "v1.10.0") >= 0 || Compare("nonsense", "v0.0.1") >= 0 {
		t.Error("versions are ordered wrongly")
	}
	if _, ok := Find("v1.2.3"); ok {
		t.Error("v1.2.3 is found")
	}
	if _, ok := Of("v1.2.3"); ok {
		t.Error("1.2 is supported")
	}
	if m, ok := Of(Default); !ok || m.Name != MinorOf(Default) {
		t.Errorf("%+v", m)
	}
}

// TestDropped: an API version that one minor can't read, no later minor can read.
func TestDropped(t *testing.T) {
	const former, newer = "scheduling.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"
	for v, want := range map[string][]string{"v1.35.8": nil, "v1.36.0": {former}, "v1.36.4": {former}, "v1.37.2": {former, newer}} {
		if got := Dropped(v); !slices.Equal(got, want) {
			t.Errorf("%s: %q", v, got)
		}
	}
}

// TestClientLibraries: the client libraries for clusters and their etcd may be at most one minor older or newer than the clusters.
func TestClientLibraries(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	ours := func(module string) int {
		m := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` v[0-9]+\.([0-9]+)\.[0-9]+$`).FindSubmatch(data)
		if m == nil {
			t.Fatalf("go.mod does not require %s", module)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	kubernetes, etcd := ours("k8s.io/client-go"), ours("go.etcd.io/etcd/client/v3")
	for _, r := range All() {
		theirs, _ := Parse(r.Kubernetes)
		member, _ := Parse(r.Etcd)
		for what, d := range map[string]int{"client-go": theirs[1] - kubernetes, "etcd's client": member[1] - etcd} {
			if d < -1 || d > 1 {
				t.Errorf("%s is too far from %s with etcd %s", what, r.Kubernetes, r.Etcd)
			}
		}
	}
}

// TestFormer: tests and benchmarks need two minors before the default's.
func TestFormer(t *testing.T) {
	for n, minors := 1, map[string]bool{MinorOf(Default): true}; n <= 2; n++ {
		v := Former(n)
		if _, ok := Find(v); !ok || minors[MinorOf(v)] {
			t.Errorf("the release of minor %d before the default's is %q", n, v)
		}
		minors[MinorOf(v)] = true
	}
	if v := Former(100); v != "" {
		t.Errorf("the release of a minor without a recipe is %q", v)
	}
}
