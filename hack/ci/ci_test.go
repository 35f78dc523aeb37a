package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryTestIsReached makes sure that make test-full runs every test of the tree, and each of them in one tier, the race tier aside.
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
		if len(in) == 0 || len(in) > 1 && !slices.Contains(in, "openstack") { // which builds with the tag of integration, too
			t.Errorf("%s is in the tiers %q, and belongs to one", f.id, in)
		}
	}
}

// TestFixedSet: each tier of make test has tests, and each unit test that make test-full does not keep to itself is in one of the two tiers.
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
			t.Errorf("%s is to be in unit or in race, not in both or in none", f.id)
		}
	}
}

func tierNamed(name string) *tier {
	return &tiers[slices.IndexFunc(tiers, func(t tier) bool { return t.name == name })]
}

// TestStepsExist: the table names no step that is not there, and the Makefile has a target for each tier.
func TestStepsExist(t *testing.T) {
	makefile := string(testkit.Value(os.ReadFile("../../Makefile"))(t))
	_, rest, _ := strings.Cut(makefile, "\nTIERS = ")
	targets, _, _ := strings.Cut(rest, "\n")
	for i := range tiers {
		for _, name := range strings.Fields(tiers[i].needs) {
			if steps[name] == "" {
				t.Errorf("%s needs %s, which does not exist", tiers[i].name, name)
			}
		}
		if name := tiers[i].name; name != "lint" && !slices.Contains(strings.Fields(targets), name) {
			t.Errorf("the Makefile has no target %s", name)
		}
	}
}

func TestFindTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":         "package a\n\nfunc F() { go func() {}() }\n",
		"a/a_test.go":    "package a\n\nfunc TestA(t *testing.T) {\n\tif true {\n\t\ttestkit.OnlyFull(t, \"no\")\n\t}\n}\n",
		"b/b_test.go":    "//go:build integration || (openstack && linux)\n\npackage b\n\nfunc TestB(t *testing.T) {\n\ttestkit.OnlyFull(t, \"yes\")\n}\n",
		".git/c_test.go": "package c\n\nfunc TestC(t *testing.T) {\n}\n",
	} {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	tests := testkit.Value(findTests(dir))(t)
	if len(tests) != 2 || tests[0].id != "a TestA" || !tests[0].concurrent || tests[0].onlyFull || tests[1].id != "b TestB" || tests[1].concurrent || !tests[1].onlyFull {
		t.Fatalf("found %+v", tests)
	}
	if b := tests[1]; b.built("") || b.built("e2e") || !b.built("e2e,integration") || !b.built("openstack") {
		t.Error("the build constraint of b was misread")
	}
}

// TestVerdicts runs a small module's tests, and commands that fail, hang, and leave tests out.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/naupegos/naupegos\n\ngo 1.24\n"), 0o644))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "p"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "p", "p_test.go"), []byte("package p\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {\n}\n\nfunc TestBad(t *testing.T) {\n\tt.Error(\"why\")\n}\n"), 0o644))
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	r := &runner{began: time.Now()}
	exec, err := r.command(t.Context(), "p", []string{"go", "test", "-json", "-count=1", "./p"}, time.Minute, os.Environ())
	res := &result{name: "p", exec: exec, err: err}
	if p, f, s := res.count(); p != 1 || f != 1 || s != 0 || err == nil {
		t.Errorf("%d passed, %d failed, %d were skipped: %v", p, f, s, err)
	}
	unit := &tier{name: "p"}
	r.tests = testkit.Value(findTests(dir))(t)
	if gone := r.missing(unit, exec); len(gone) > 0 {
		t.Errorf("missing are %q", gone)
	}
	r.tests = append(r.tests, testFunc{id: "p TestGone"})
	if gone := r.missing(unit, exec); !slices.Equal(gone, []string{"p TestGone"}) {
		t.Errorf("missing are %q", gone)
	}
	r.results = []*result{res}
	if err := r.report(); err == nil || !strings.Contains(err.Error(), "failed: p") {
		t.Errorf("a run with a failed tier ends with %v", err)
	}
	if _, err := r.command(t.Context(), "hangs", []string{"sleep", "1000"}, 100*time.Millisecond, os.Environ()); err == nil {
		t.Error("a command that hangs did not fail")
	}
	if _, err := r.command(t.Context(), "no", []string{"./no-such-command"}, time.Minute, os.Environ()); err == nil {
		t.Error("a command that does not exist did not fail")
	}
}

// TestOneRunAtATime: a second run on the host stops, and the mark of a killed run is found.
func TestOneRunAtATime(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	lock, err := net.Listen("unix", "@naupegos-ci")
	if err == nil {
		defer lock.Close()
	} // else the run that this test is part of has it
	if _, err := begin(context.Background()); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("beside another run, one begins with %v", err)
	}
}

// TestRecord keeps what passed, by tier, and the tree that passed as a whole.
func TestRecord(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir("../..")
	r := &runner{began: time.Now()}
	exec, err := r.command(t.Context(), "p", []string{"true"}, time.Minute, os.Environ())
	testkit.Must(t, err)
	testkit.Must(t, record(t.Context(), &tier{name: "some"}, &result{exec: exec}, true))
	p, _, err := load("some")
	testkit.Must(t, err)
	if now := tree(t.Context()); p.Tree != now || passedFor(t.Context(), "some") != (now != "") || passedFor(t.Context(), "other") {
		t.Errorf("kept is %+v, the tree is %q", p, now)
	}
	testkit.Must(t, record(t.Context(), &tier{name: "some"}, &result{exec: exec, err: os.ErrInvalid}, false))
}
