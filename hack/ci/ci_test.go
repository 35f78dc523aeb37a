package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryTestIsReached: make test-full runs every test of the tree.
func TestEveryTestIsReached(t *testing.T) {
	tests := testkit.Value(findTests("../.."))(t)
	if len(tests) < 1000 {
		t.Fatalf("only %d tests were found: this test looks in the wrong place", len(tests))
	}
	for _, f := range tests {
		if f.tier == nil || !f.tier.has(f, true) {
			t.Errorf("%s is in no tier", f.id())
		}
	}
}

// TestFixedSet: each tier of make test has tests, and each test outside of the full set is in exactly one of them.
func TestFixedSet(t *testing.T) {
	tests := testkit.Value(findTests("../.."))(t)
	for i := range tiers {
		if t1 := &tiers[i]; !t1.full && t1.command == "" && len(t1.selected(tests, false)) == 0 {
			t.Errorf("make test's tier %s has no test", t1.name)
		}
	}
	for _, f := range tests {
		in := 0
		for i := range tiers {
			if tiers[i].has(f, false) {
				in++
			}
		}
		if f.tier != nil && !f.onlyFull && !f.tier.full && in != 1 { // TestEveryTestIsReached names one without a tier
			t.Errorf("make test has %s in %d tiers", f.id(), in)
		}
	}
}

// TestNeeds: the Makefile has all targets that tiers need. Its patterns fit any word, so releases, addons and set-ups are compared with what there is.
func TestNeeds(t *testing.T) {
	for _, tier := range tiers {
		for _, target := range strings.Fields(tier.needs) {
			if err := known(t.Context(), target); err != nil {
				t.Errorf("%s needs %s: %v", tier.name, target, err)
			}
		}
	}
	for _, target := range []string{"bundel", "bundle-v1.2.3", "bundle-" + release.Default + "+no-addon", former + "+openstack+metallb", "setup-nothing"} {
		if known(t.Context(), target) == nil {
			t.Errorf("a tier may need %s", target)
		}
	}
}

// known fails unless make can make a target.
func known(ctx context.Context, target string) error {
	if what, ok := strings.CutPrefix(target, "setup-"); ok { // hack/setup lists its words first
		text, err := os.ReadFile("../setup")
		words := regexp.MustCompile(`(?m)^case "\$what" in (\S+)\) ;; \*\) die`).FindSubmatch(text)
		if err != nil {
			return err
		}
		if words == nil || !slices.Contains(strings.Split(string(words[1]), "|"), what) {
			return errors.New("hack/setup does not know it")
		}
	}
	if what, ok := strings.CutPrefix(target, "bundle-"); ok {
		version, addons, with := strings.Cut(what, "+")
		if _, ok := release.Find(version); !ok {
			return fmt.Errorf("there is no release %s", version)
		}
		for name := range strings.SplitSeq(addons, ",") {
			if with && !slices.Contains(bundle.AddonSets(), name) {
				return fmt.Errorf("there is no addon %q", name)
			}
		}
	}
	if out, err := exec.CommandContext(ctx, "make", "-C", "../..", "--dry-run", target).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
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
	if len(tests) != 2 || tests[0].id() != "a TestA" || !tests[0].raced || tests[0].onlyFull || tests[1].id() != "b TestB" || tests[1].raced || !tests[1].onlyFull {
		t.Fatalf("found %+v", tests)
	}
	for line, want := range map[string]string{
		"package b": "unit", "//go:build linux": "unit", "//go:build integration || (openstack && linux)": "integration", "//go:build integration && openstack": "openstack",
		"//go:build e2e && image": "own-image", "//go:build e2e": "clusters",
	} {
		if got := firstTier("b TestB", line); got.name != want {
			t.Errorf("the tier of a test behind %q is %s, want %s", line, got.name, want)
		}
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
	ran := readEvents(file)
	listed := []string{"p TestGood", "p TestBad", "p TestHung", "p TestGone"}
	want := []string{"p TestBad", "p TestHung (did not end)", "p TestGone (did not end)"}
	res := &result{}
	if res.count(listed, ran); !slices.Equal(res.bad, want) || res.passed != 1 {
		t.Errorf("a tier with failed tests ends as %+v", res)
	}
	if err := report([]*result{res}); err == nil || !strings.Contains(err.Error(), "TestHung (did not end)") {
		t.Errorf("a run with a failed tier ends with %v", err)
	}
	var early result
	if early.count(listed, readEvents(filepath.Join(t.TempDir(), "none"))); len(early.bad) != 4 {
		t.Errorf("a tier that ended before its first test ends as %+v", early)
	}
	for command, fails := range map[string]bool{"./no-such-command": true, "false": true, "true": false} {
		if err := report([]*result{(&tier{name: "p", command: command}).run(t.Context(), nil, false, false)}); (err != nil) != fails {
			t.Errorf("%s: %v", command, err)
		}
	}
	testkit.Must(t, os.Remove(cacheFile("passes")))
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

func TestReportListsEveryTest(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tests, err := findTests("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printPasses(&out, tests); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		listed[words[0]+" "+strings.Join(words[max(0, len(words)-2):], " ")] = true
	}
	for _, f := range tests {
		if f.tier != nil && !listed[f.tier.name+" "+f.id()] {
			t.Errorf("the report lacks %s of the tier %s", f.id(), f.tier.name)
		}
	}
}
