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
	"syscall"
	"time"

	"golang.org/x/term"
	"gotest.tools/gotestsum/testjson"
)

// runner runs tiers of the table.
type runner struct {
	tests   []testFunc
	full    bool
	resume  bool // leave out tiers that have passed for this tree
	count   int  // of runs of each test; 0: one
	results []*result
}

// result is the outcome of a tier or of a step.
type result struct {
	name         string
	took, budget time.Duration
	err          error
	note         string              // why it did not run
	tests        *testjson.Execution // nil: it is not go test
}

// run runs steps and tiers by name, with all steps that they need, and prints the report. A step that fails ends the run.
func (r *runner) run(ctx context.Context, args []string) error {
	needed := append([]string{"setup"}, args...)
	for _, t := range tiers {
		if slices.Contains(args, t.name) {
			needed = append(needed, strings.Fields(t.needs)...)
		}
	}
	for _, s := range steps {
		if argv := strings.Fields(s.command); slices.Contains(needed, s.name) && !r.add(&result{name: s.name}, func(res *result) {
			res.err = show(exec.CommandContext(ctx, argv[0], argv[1:]...))
		}) {
			return r.report()
		}
	}
	for i := range tiers {
		if t := &tiers[i]; slices.Contains(args, t.name) {
			r.add(&result{name: t.name, budget: t.budget}, func(res *result) { r.tier(ctx, t, res) })
		}
	}
	return r.report()
}

// add runs something, keeps its result, and reports whether it passed.
func (r *runner) add(res *result, run func(*result)) bool {
	began := time.Now()
	run(res)
	res.took = time.Since(began)
	r.results = append(r.results, res)
	fmt.Printf("\nci: %s: %s\n", res.name, res.verdict())
	return res.err == nil
}

// tier runs one tier, unless this host cannot run it, or it has passed for this tree.
func (r *runner) tier(ctx context.Context, t *tier, res *result) {
	if system, err := os.ReadFile("/etc/os-release"); t.bed && (err != nil || !strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")) {
		res.note = "not run: the OpenStack test bed needs Debian 12"
		return
	}
	if tree := tree(ctx); r.resume && tree != "" && loadPasses()["tier "+t.name].Tree == tree {
		res.note = "has passed for this tree"
		return
	}
	events := filepath.Join(".evidence", "ci", t.name+".json")
	if res.err = errors.Join(os.MkdirAll(filepath.Dir(events), 0o755), os.RemoveAll(events)); res.err != nil {
		return
	}
	argv := t.argv(r.tests, r.full, r.count, events)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=") // programs with the race detector sleep for a second at their end otherwise
	if r.full && !t.race {
		cmd.Env = append(cmd.Env, "NAUPEGOS_FULL=1")
	}
	res.err = show(cmd)
	if t.command == "" {
		var err error
		res.tests, err = readEvents(events)
		if gone := r.missing(t, res.tests); res.err == nil && len(gone) > 0 {
			res.err = fmt.Errorf("%d tests of the tier did not run, such as %s", len(gone), gone[0])
		}
		res.err = errors.Join(res.err, err)
	}
	res.err = errors.Join(res.err, r.record(ctx, t, res))
}

// show runs a command whose output goes to the terminal. An interrupt lets it and its children clean up before they end. A terminal sends Ctrl-C to all
// of them, and sudo reads passwords from it; elsewhere show does, because go run and go tool do not pass interrupts on.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdout, os.Stderr, 2*time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	}
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
