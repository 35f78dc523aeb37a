package release

import (
	"os"
	"regexp"
	"slices"
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

// TestClientLibraries: what talks to clusters may be one minor older or newer than they are.
func TestClientLibraries(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\tk8s\.io/client-go v0\.(\d+)\.\d+$`).FindSubmatch(data)
	if m == nil {
		t.Fatal("go.mod does not require client-go")
	}
	ours, _ := Parse("v1." + string(m[1]) + ".0")
	for _, name := range Minors() {
		theirs, _ := Parse("v" + name + ".0")
		if d := theirs[1] - ours[1]; d < -1 || d > 1 {
			t.Errorf("client-go is of 1.%d: clusters of %s are too far from it", ours[1], name)
		}
	}
}
