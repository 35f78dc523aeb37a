package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryTestIsReached: make test-full runs every test of the tree, each in exactly one tier (not counting the race tier).
func TestEveryTestIsReached(t *testing.T) {
	tests := testkit.Value(findTests("../.."))(t)
	if len(tests) < 1000 {
		t.Fatalf("only %d tests were found: this test looks in the wrong place", len(tests))
	}
	for _, f := range tests {
		var in []string
		for i := range tiers {
			if tiers[i].has(f, true) && !tiers[i].race {
				in = append(in, tiers[i].name)
			}
		}
		if len(in) == 0 || len(in) > 1 && !slices.Contains(in, "openstack") { // tag openstack also builds tests of tag integration
			t.Errorf("%s is in the tiers %q, and belongs to one", f.id(), in)
		}
	}
}

// TestFixedSet: each tier of make test has tests, and each unit test outside of the full set is in exactly one of unit and race.
func TestFixedSet(t *testing.T) {
	tests := testkit.Value(findTests("../.."))(t)
	for i := range tiers {
		if t1 := &tiers[i]; !t1.full && t1.command == "" && len(t1.selected(tests, false)) == 0 {
			t.Errorf("make test's tier %s has no test", t1.name)
		}
	}
	unit, race := tierNamed("unit"), tierNamed("race")
	for _, f := range tests {
		if f.built("") && !f.onlyFull && unit.has(f, false) == race.has(f, false) {
			t.Errorf("%s is to be in unit or in race, not in both or in none", f.id())
		}
	}
}

func tierNamed(name string) *tier {
	return &tiers[slices.IndexFunc(tiers, func(t tier) bool { return t.name == name })]
}

// TestStepsExist: the table has every step that a tier needs.
func TestStepsExist(t *testing.T) {
	for _, tier := range tiers {
		r := &runner{wanted: map[string]bool{}}
		if unknown := r.want([]string{tier.name}); unknown != "" || r.want(strings.Fields(tier.needs)) != "" {
			t.Errorf("%s needs %q, and some of it does not exist", tier.name, tier.needs)
		}
		for _, step := range strings.Fields(tier.needs) {
			if !r.wanted[step] {
				t.Errorf("a run of %s leaves out %s", tier.name, step)
			}
		}
	}
	if unknown := (&runner{wanted: map[string]bool{}}).want([]string{"unit", "unti"}); unknown != "unti" {
		t.Errorf("the unknown name is %q", unknown)
	}
}

func TestFindTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":               "package a\n\nfunc F() { go func() {}() }\n",
		"a/a_test.go":          "package a\n\nfunc TestA(t *testing.T) {\n\tif true {\n\t\ttestkit.OnlyFull(t, \"no\")\n\t}\n}\n",
		"b/b_test.go":          "//go:build integration || (openstack && linux)\n\npackage b\n\nfunc TestB(t *testing.T) {\n\ttestkit.OnlyFull(t, \"yes\")\n}\n",
		"b/testdata/c_test.go": "package c\n\nfunc TestC(t *testing.T) {\n}\n",
	} {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	testkit.Must(t, exec.Command("git", "-C", dir, "init", "-q").Run())
	tests := testkit.Value(findTests(dir))(t)
	if len(tests) != 2 || tests[0].id() != "a TestA" || !tests[0].concurrent || tests[0].onlyFull || tests[1].id() != "b TestB" || tests[1].concurrent || !tests[1].onlyFull {
		t.Fatalf("found %+v", tests)
	}
	if b := tests[1]; b.built("") || b.built("e2e") || !b.built("e2e,integration") || !b.built("openstack") {
		t.Error("the build constraint of b was misread")
	}
}

// TestVerdict: a tier fails if a test fails, if a listed test does not end, or if its command cannot run; then the whole run fails.
func TestVerdict(t *testing.T) {
	const events = `not JSON
{"Action":"run","Package":"github.com/naupegos/naupegos/p","Test":"TestGood"}
{"Action":"pass","Package":"github.com/naupegos/naupegos/p","Test":"TestGood","Elapsed":2}
{"Action":"run","Package":"github.com/naupegos/naupegos/p","Test":"TestBad"}
{"Action":"fail","Package":"github.com/naupegos/naupegos/p","Test":"TestBad","Elapsed":1}
{"Action":"run","Package":"github.com/naupegos/naupegos/p","Test":"TestHung"}
{"Action":"output","Package":"github.com/naupegos/naupegos/p","Test":"TestHung","Output":"panic: test timed out"}
{"Action":"fail","Package":"github.com/naupegos/naupegos/p","Elapsed":3}
`
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	testkit.Must(t, os.MkdirAll(filepath.Dir(cacheFile("x")), 0o755))
	file := filepath.Join(t.TempDir(), "events")
	testkit.Must(t, os.WriteFile(file, []byte(events), 0o644))
	ran := testkit.Value(readEvents(file))(t)
	listed := []string{"p TestGood", "p TestBad", "p TestHung", "p TestGone"}
	want := []string{"p TestBad", "p TestHung (did not end)", "p TestGone (did not end)"}
	r := &runner{}
	if r.add("bad", func(res *result) error { res.count(listed, ran); return nil }) || !slices.Equal(r.results[0].bad, want) || r.results[0].passed != 1 {
		t.Errorf("a tier with failed tests ends as %+v", r.results[0])
	}
	if err := r.report(); err == nil || !strings.Contains(err.Error(), "TestHung (did not end)") {
		t.Errorf("a run with a failed tier ends with %v", err)
	}
	var early result
	if early.count(listed, testkit.Value(readEvents(filepath.Join(t.TempDir(), "none")))(t)); len(early.bad) != 4 {
		t.Errorf("a tier that ended before its first test ends as %+v", early)
	}
	if r := (&runner{}); r.add("none", func(*result) error { return show(exec.CommandContext(t.Context(), "./no-such-command")) }) || r.report() == nil {
		t.Error("a command that does not exist did not fail")
	}
	if r := (&runner{}); !r.add("good", func(*result) error { return nil }) || r.report() != nil {
		t.Error("a run without failures failed")
	}
	testkit.Must(t, record(t.Context(), "p", ran, false, ""))
	if all := loadPasses(); all["p TestGood"].Elapsed != 2 || len(all) != 1 {
		t.Errorf("kept is %+v", all)
	}
	testkit.Must(t, record(t.Context(), "p", nil, true, "tree"))
	if all := loadPasses(); len(all) != 2 || all["tier p"].Tree != "tree" || all["tier p"].Time.IsZero() {
		t.Errorf("kept is %+v", all)
	}
}

// TestInterruptReachesChildren: an interrupted run ends a grandchild whose parent, like go run, does not pass interrupts on.
func TestInterruptReachesChildren(t *testing.T) {
	dir := t.TempDir()
	ready, ended := filepath.Join(dir, "ready"), filepath.Join(dir, "ended")
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	inner := fmt.Sprintf(`trap 'touch %s; exit 0' INT; touch %s; while :; do sleep 0.1; done`, ended, ready)
	go func() { done <- show(exec.CommandContext(ctx, "sh", "-c", `trap : INT; sh -c "$0"; true`, inner)) }()
	exists := func(file string) func() error {
		return testkit.That(file+" exists", func() bool { _, err := os.Stat(file); return err == nil })
	}
	testkit.Until(t, time.Minute, 20*time.Millisecond, exists(ready))
	interrupt()
	testkit.Until(t, time.Minute, 20*time.Millisecond, exists(ended))
	<-done
}

// TestOneRunAtATime: a second run on the host is refused.
func TestOneRunAtATime(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if lock, err := net.Listen("unix", "@naupegos-ci"); err == nil {
		defer lock.Close()
	} // otherwise the enclosing run of the tests holds the lock
	if _, err := begin(t.Context()); err == nil || !strings.Contains(err.Error(), "another test run") {
		t.Errorf("a second run: %v", err)
	}
}
