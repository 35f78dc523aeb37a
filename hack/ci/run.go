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
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// runner runs tiers of the table.
type runner struct {
	tests  []testFunc
	full   bool
	resume bool // leave out tiers that have passed for this tree
	count  int  // of runs of each test; 0: one

	began   time.Time
	mu      sync.Mutex
	results []*result
}

// result is the outcome of a tier or of a step.
type result struct {
	name         string
	took, budget time.Duration
	err          error
	note         string              // why it was not run
	tests        *testjson.Execution // nil: it is not go test
}

// run runs the tiers that want selects, after all steps that they need, and prints the report.
func (r *runner) run(ctx context.Context, want func(*tier) bool) error {
	r.began = time.Now()
	failed := map[string]bool{}
	for _, s := range steps {
		if s.name != "setup" && !slices.ContainsFunc(tiers, func(t tier) bool { return want(&t) && slices.Contains(strings.Fields(t.needs), s.name) }) {
			continue
		}
		argv := strings.Fields(s.command)
		failed[s.name] = r.add(&result{name: s.name}, func() (*testjson.Execution, error) {
			return nil, show(exec.CommandContext(ctx, argv[0], argv[1:]...))
		}) != nil
	}
	var lanes sync.WaitGroup
	for i := range tiers {
		if t := &tiers[i]; want(t) {
			if !t.beside {
				lanes.Wait()
			}
			lanes.Go(func() { r.tier(ctx, t, failed) })
		}
	}
	lanes.Wait()
	return r.report()
}

// add runs something, and keeps its result.
func (r *runner) add(res *result, run func() (*testjson.Execution, error)) error {
	began := time.Now()
	if res.note == "" && res.err == nil {
		res.tests, res.err = run()
	}
	res.took = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	fmt.Printf("\nci: %s: %s\n", res.name, res.verdict())
	return res.err
}

// tier runs one tier, unless a step that it needs has failed, this host cannot run it, or it has passed for this tree.
func (r *runner) tier(ctx context.Context, t *tier, failed map[string]bool) {
	res := &result{name: t.name, budget: t.budget}
	for _, name := range append(strings.Fields(t.needs), "setup") {
		if failed[name] {
			res.err = fmt.Errorf("it needs %s, which failed", name)
		}
	}
	if system, err := os.ReadFile("/etc/os-release"); t.bed && (err != nil || !strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")) {
		res.note = "not run: the OpenStack test bed needs Debian 12"
	} else if tree := tree(ctx); r.resume && tree != "" && loadPasses()["tier "+t.name].Tree == tree {
		res.note = "has passed for this tree"
	}
	_ = r.add(res, func() (*testjson.Execution, error) { // the report has the error
		events := filepath.Join(".evidence", "ci", t.name+".json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(events), 0o755), os.RemoveAll(events)); err != nil {
			return nil, err
		}
		argv := t.argv(r.tests, r.full, r.count, events)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=") // programs with the race detector sleep for a second at their end otherwise
		if r.full && !t.race {
			cmd.Env = append(cmd.Env, "NAUPEGOS_FULL=1")
		}
		err := show(cmd)
		if t.command != "" {
			return nil, errors.Join(err, r.record(ctx, t, nil, err))
		}
		tests, readErr := readEvents(events)
		if gone := r.missing(t, tests); err == nil && len(gone) > 0 {
			err = fmt.Errorf("%d tests of the tier did not run, such as %s", len(gone), gone[0])
		}
		return tests, errors.Join(err, readErr, r.record(ctx, t, tests, err))
	})
}

// show runs a command whose output goes to the terminal. An interrupt lets it clean up before it ends.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdout, os.Stderr, 2*time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}

// readEvents reads what go test -json printed.
func readEvents(path string) (*testjson.Execution, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = os.Open(os.DevNull) // it ended before its first test
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
