package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// runner runs tiers of the table.
type runner struct {
	tests   []testFunc
	wanted  map[string]bool // steps and tiers by name
	full    bool
	resume  bool // skip tiers that have passed for this tree
	count   int  // number of runs of each test; 0: one
	results []*result
}

// result is the outcome of a tier or of a step.
type result struct {
	name, verdict           string
	took                    time.Duration
	passed, failed, skipped int
	bad                     []string // tests that failed or did not end; the tier itself if its command failed
}

// want adds steps and tiers by name, with all steps that the tiers need. It returns a name that is not in the table, or "".
func (r *runner) want(names []string) (unknown string) {
	for _, name := range names {
		r.wanted[name] = true
		if i := slices.IndexFunc(tiers, func(t tier) bool { return t.name == name }); i >= 0 {
			r.want(strings.Fields(tiers[i].needs))
		} else if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			unknown = name
		}
	}
	return unknown
}

// run runs everything that is wanted and prints the report. A failing step ends the run.
func (r *runner) run(ctx context.Context) error {
	for _, s := range steps {
		argv := strings.Fields(s.command)
		if r.wanted[s.name] && !r.add(s.name, func(*result) error { return show(exec.CommandContext(ctx, argv[0], argv[1:]...)) }) {
			return r.report()
		}
	}
	for i := range tiers {
		if t := &tiers[i]; r.wanted[t.name] {
			r.add(t.name, func(res *result) error { return r.tier(ctx, t, res) })
		}
	}
	return r.report()
}

// add runs a function, keeps its result, and reports whether it passed.
func (r *runner) add(name string, run func(*result) error) bool {
	began, res := time.Now(), &result{name: name, verdict: "passed"}
	err := run(res)
	res.took = time.Since(began)
	if err != nil {
		res.bad = append(res.bad, fmt.Sprintf("%s: %v", name, err))
	}
	if len(res.bad) > 0 {
		res.verdict = "FAILED: " + strings.Join(res.bad, ", ")
	}
	r.results = append(r.results, res)
	fmt.Printf("\nci: %s: %s\n", name, res.verdict)
	return len(res.bad) == 0
}

// tier runs one tier, unless this host cannot run it or it has passed for this tree.
func (r *runner) tier(ctx context.Context, t *tier, res *result) error {
	if system, err := os.ReadFile("/etc/os-release"); t.bed && (err != nil || !strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")) {
		res.verdict = "not run: the OpenStack test bed needs Debian 12"
		return nil
	}
	tree := tree(ctx)
	if r.resume && tree != "" && loadPasses()["tier "+t.name].Tree == tree {
		res.verdict = "has passed for this tree"
		return nil
	}
	events := filepath.Join(".evidence", "ci", t.name+".json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(events), 0o755), os.RemoveAll(events)); err != nil {
		return err
	}
	began, argv := time.Now(), t.argv(r.tests, r.full, r.count, events)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=") // by default, programs with the race detector sleep for a second before they exit
	if r.full && !t.race {
		cmd.Env = append(cmd.Env, "NAUPEGOS_FULL=1")
	}
	err := show(cmd)
	ran, unread := readEvents(events)
	res.count(t.selected(r.tests, r.full), ran)
	if t.budget > 0 && time.Since(began) > t.budget {
		res.verdict = fmt.Sprintf("passed, over its budget of %v", t.budget)
	}
	if !r.full {
		tree = ""
	}
	return errors.Join(err, unread, record(ctx, t.name, ran, err == nil && len(res.bad) == 0, tree))
}

// count counts a tier's tests by outcome. A test without an end did not run, or its process ended first.
func (res *result) count(tests []string, ran map[string]event) {
	for _, id := range tests {
		switch ran[id].Action {
		case "pass":
			res.passed++
		case "skip":
			res.skipped++
		case "fail":
			res.failed++
			res.bad = append(res.bad, id)
		default:
			res.bad = append(res.bad, id+" (did not end)")
		}
	}
}

// show runs a command whose output goes to the terminal. An interrupt lets the command and its children clean up before they end. On a terminal,
// Ctrl-C reaches all of them, and sudo can read passwords; elsewhere show passes interrupts on, because go run and go tool do not.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdout, os.Stderr, 2*time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	}
	return cmd.Run()
}

// report prints a table of all tiers, and the verdict in the last line. gotestsum has already shown, at the end of each tier, why tests failed.
func (r *runner) report() error {
	all := result{name: "PASS"}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(res *result) {
		fmt.Fprintf(w, "%s\t%v\t%d passed\t%d failed\t%d skipped\t%s\n", res.name, res.took.Round(time.Second), res.passed, res.failed, res.skipped, res.verdict)
	}
	fmt.Println()
	for _, res := range r.results {
		row(res)
		all.took, all.passed, all.failed, all.skipped = all.took+res.took, all.passed+res.passed, all.failed+res.failed, all.skipped+res.skipped
		if all.bad = append(all.bad, res.bad...); len(all.bad) > 0 {
			all.name, all.verdict = "FAIL", ".evidence/TEST has the logs of a test's machines"
		}
	}
	row(&all)
	if err := w.Flush(); err != nil || len(all.bad) == 0 {
		return err
	}
	return errors.New("failed: " + strings.Join(all.bad, ", "))
}
