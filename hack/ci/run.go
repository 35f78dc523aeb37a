package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// runner runs tiers of the table.
type runner struct {
	tests  []testFunc
	full   bool
	resume bool     // leave out tiers that have passed for this tree
	more   []string // arguments of go test

	began   time.Time
	mu      sync.Mutex // of what follows, and of the terminal
	results []*result
}

// result is the outcome of a tier or of a step.
type result struct {
	name         string
	took, budget time.Duration
	err          error
	note         string // why it was not run
	exec         *testjson.Execution
}

// all runs the tiers that want selects, after all steps that they need, and prints the report.
func (r *runner) all(ctx context.Context, want func(*tier) bool) error {
	r.began = time.Now()
	failed := map[string]bool{}
	needs := []string{"setup"}
	for i := range tiers {
		if want(&tiers[i]) {
			needs = append(needs, strings.Fields(tiers[i].needs)...)
		}
	}
	for _, name := range unique(needs) {
		res := r.add(&result{name: name}, func(res *result) {
			res.exec, res.err = r.command(ctx, name, strings.Fields(steps[name]), 2*time.Hour, os.Environ())
		})
		failed[name] = res.err != nil
	}
	var lanes sync.WaitGroup
	for i := range tiers {
		t := &tiers[i]
		if !want(t) {
			continue
		}
		if !t.beside {
			lanes.Wait()
		}
		lanes.Go(func() {
			r.add(&result{name: t.name, budget: t.budget}, func(res *result) { r.tier(ctx, t, res, failed) })
		})
	}
	lanes.Wait()
	return r.report()
}

func (r *runner) add(res *result, run func(*result)) *result {
	began := time.Now()
	run(res)
	res.took = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	fmt.Printf("ci: %s: %s\n", res.name, res.verdict("ended"))
	return res
}

// tier runs one tier, unless a step that it needs has failed, this host cannot run it, or it has passed for this tree.
func (r *runner) tier(ctx context.Context, t *tier, res *result, failed map[string]bool) {
	for _, name := range append([]string{"setup"}, strings.Fields(t.needs)...) {
		if failed[name] {
			res.err = fmt.Errorf("it needs %s, which failed", name)
			return
		}
	}
	if system, err := os.ReadFile("/etc/os-release"); t.bed && !(err == nil && strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")) {
		res.note = "not run: the OpenStack test bed needs Debian 12"
	} else if r.resume && passedFor(ctx, t.name) {
		res.note = "has passed for this tree"
	} else {
		env := append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=") // programs with the race detector sleep for a second at their end otherwise
		if r.full && !t.race {
			env = append(env, "NAUPEGOS_FULL=1")
		}
		res.exec, res.err = r.command(ctx, t.name, append(t.argv(r.tests, r.full), r.more...), 2*t.limit, env)
		if res.exec == nil {
			return
		}
		if gone := r.missing(t, res.exec); res.err == nil && len(gone) > 0 {
			res.err = fmt.Errorf("%d tests of the tier did not run, such as %s", len(gone), gone[0])
		}
		res.err = errors.Join(res.err, record(ctx, t, res, r.full))
	}
}

// missing returns the tests of the tier that did not run.
func (r *runner) missing(t *tier, exec *testjson.Execution) []string {
	return slices.DeleteFunc(t.selected(r.tests, r.full), func(id string) bool {
		dir, name, _ := strings.Cut(id, " ")
		pkg := exec.Package(module + dir)
		return pkg != nil && slices.ContainsFunc(pkg.TestCases(), func(c testjson.TestCase) bool { return c.Test.Name() == name })
	})
}

// command runs a command that is a process group of its own, and reads what go test -json prints. Past the limit, Go programs print their
// goroutines before they end.
func (r *runner) command(ctx context.Context, name string, argv []string, limit time.Duration, env []string) (*testjson.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = env, &syscall.SysProcAttr{Setpgid: true}, 2*time.Minute
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT)
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exec, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: out, Stderr: errs, Handler: &handler{r: r, name: name}, IgnoreNonJSONOutputLines: true})
	return exec, errors.Join(err, cmd.Wait())
}

// handler prints what a command says, line by line behind its name: tiers run side by side.
type handler struct {
	r    *runner
	name string
}

func (h *handler) Event(e testjson.TestEvent, _ *testjson.Execution) error {
	top := e.Test != "" && !strings.Contains(e.Test, "/")
	switch closing := strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t"); {
	case e.PackageEvent() && closing, strings.Contains(e.Output, "FIGURE"):
		return h.Err(strings.TrimRight(e.Output, "\n"))
	case top && e.Action.IsTerminal() && e.Elapsed >= 5:
		return h.Err(fmt.Sprintf("--- %s: %s (%.1fs)", strings.ToUpper(string(e.Action)), e.Test, e.Elapsed))
	}
	return nil
}

func (h *handler) Err(text string) error {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	fmt.Printf("%s: %s\n", h.name, text) // a terminal that is gone does not end the tests
	return nil
}

// asRoot returns a command line that runs as root if it has to.
func asRoot(root bool, argv []string) []string {
	if !root || os.Geteuid() == 0 {
		return argv
	}
	return append([]string{"sudo", "-E", "env", "PATH=" + os.Getenv("PATH")}, argv...)
}

func unique(names []string) []string {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return slices.Sorted(maps.Keys(set))
}
