package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// runner runs tiers of the table.
type runner struct {
	tests  []testFunc
	full   bool
	resume bool // skip tiers that passed for this tree
	count  int  // runs of each test; 0: one

	began   time.Time
	results []*result
}

// result is the outcome of a tier or of a step.
type result struct {
	name         string
	took, budget time.Duration
	err          error
	note         string              // reason for skipping it
	tests        *testjson.Execution // nil for commands other than go test
}

// run runs the steps that the selected tiers need, then the tiers, and prints the report. A failed step ends the run.
func (r *runner) run(ctx context.Context, want func(*tier) bool) error {
	r.began = time.Now()
	for _, s := range steps {
		needed := func(t tier) bool { return want(&t) && slices.Contains(strings.Fields("setup "+t.needs), s.name) }
		if argv := strings.Fields(s.command); slices.ContainsFunc(tiers, needed) && !r.add(&result{name: s.name}, func(res *result) {
			res.err = show(exec.CommandContext(ctx, argv[0], argv[1:]...))
		}) {
			return r.report()
		}
	}
	for i := range tiers {
		if t := &tiers[i]; want(t) {
			r.add(&result{name: t.name, budget: t.budget}, func(res *result) { r.tier(ctx, t, res) })
		}
	}
	return r.report()
}

// add runs a function, records its result, and reports whether it passed.
func (r *runner) add(res *result, run func(*result)) bool {
	began := time.Now()
	run(res)
	res.took = time.Since(began)
	r.results = append(r.results, res)
	fmt.Printf("\nci: %s: %s\n", res.name, res.verdict())
	return res.err == nil
}

// tier runs one tier, unless this host cannot run it or it already passed for this tree.
func (r *runner) tier(ctx context.Context, t *tier, res *result) {
	if system, err := os.ReadFile("/etc/os-release"); t.bed && (err != nil || !strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")) {
		res.note = "not run: the OpenStack test bed needs Debian 12"
		return
	}
	if tree := tree(ctx); r.resume && tree != "" && loadPasses()["tier "+t.name].Tree == tree {
		res.note = "already passed for this tree"
		return
	}
	events := filepath.Join(".evidence", "ci", t.name+".json")
	if res.err = errors.Join(os.MkdirAll(filepath.Dir(events), 0o755), os.RemoveAll(events)); res.err != nil {
		return
	}
	argv := t.argv(r.tests, r.full, r.count, events)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=") // by default, programs with the race detector sleep for a second at exit
	if r.full && !t.race {
		cmd.Env = append(cmd.Env, "NAUPEGOS_FULL=1")
	}
	res.err = show(cmd)
	if t.command == "" {
		var err error
		res.tests, err = readEvents(events)
		if gone := r.missing(t, res.tests); res.err == nil && len(gone) > 0 {
			res.err = fmt.Errorf("%d tests of the tier did not run, for example %s", len(gone), gone[0])
		}
		res.err = errors.Join(res.err, err)
	}
	res.err = errors.Join(res.err, r.record(ctx, t, res))
}

// show runs a command with output to the terminal. On an interrupt it waits for the command's cleanup.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdout, os.Stderr, 2*time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}

// readEvents reads the output of go test -json.
func readEvents(path string) (*testjson.Execution, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = os.Open(os.DevNull) // go test ended before the first test
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return testjson.ScanTestOutput(testjson.ScanConfig{Stdout: file})
}

// missing returns the tests of the tier that did not run.
func (r *runner) missing(t *tier, ran *testjson.Execution) []string {
	return slices.DeleteFunc(t.selected(r.tests, r.full), func(id string) bool {
		dir, name, _ := strings.Cut(id, " ")
		pkg := ran.Package(module + dir)
		return pkg != nil && slices.ContainsFunc(pkg.TestCases(), func(c testjson.TestCase) bool { return c.Test.Name() == name })
	})
}
