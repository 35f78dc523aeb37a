// Command ci runs the tiers of the tests, which the table in tiers.go lists. gotestsum runs and shows the tests of a tier.
//
//	go run ./hack/ci test      the fixed set: the same tests on every host, in every run
//	go run ./hack/ci full      every test; a tier that has passed for this tree does not run again
//	go run ./hack/ci NAME...   some tiers, such as unit or life; with NAUPEGOS_FULL=1 as full runs them
//	go run ./hack/ci report    the tests of each tier: when and on which commit each last passed, and how long it took
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := ci(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
		os.Exit(1)
	}
}

func ci(ctx context.Context, args []string) error {
	tests, err := findTests(".")
	if err != nil {
		return err
	}
	word := strings.Join(args, " ")
	full := word == "full" || os.Getenv("NAUPEGOS_FULL") != ""
	if word == "report" {
		return printPasses(os.Stdout, tests)
	}
	var chosen []*tier
	for i, t := range tiers {
		if word == "full" || word == "test" && !t.full || slices.Contains(args, t.name) {
			chosen = append(chosen, &tiers[i])
		}
	}
	if len(chosen) < max(1, len(args)) {
		return fmt.Errorf("hack/ci/tiers.go does not have all tiers of %q", args)
	}
	end, err := begin(ctx)
	if err != nil {
		return err
	}
	results, lanes := make([]*result, len(chosen)), sync.WaitGroup{}
	for _, waits := range []bool{false, true} { // tiers that mostly wait for machines or the bed run next to tiers that compute
		lanes.Go(func() {
			for i, t := range chosen {
				if (t.bed || strings.Contains(t.tags, "e2e")) == waits {
					results[i] = t.run(ctx, tests, full, word == "full")
				}
			}
		})
	}
	lanes.Wait()
	return errors.Join(report(results), end())
}

// begin ensures that no other run is under way on this host. It removes the leftovers of a killed run, unless the host had clusters before that run,
// which may be the user's. The returned function ends the run.
func begin(ctx context.Context) (end func() error, err error) {
	lock, err := net.Listen("unix", "@naupegos-ci") // an abstract socket vanishes with its process
	if err != nil {
		return nil, fmt.Errorf("another test run is under way on this host: wait for its end, or interrupt it (%w)", err)
	}
	mark := cacheFile("running")
	if before, err := os.ReadFile(mark); err == nil && len(before) == 0 {
		fmt.Println("ci: the run before was killed; hack/fresh removes its leftovers")
		if err := show(exec.CommandContext(ctx, "hack/fresh", "--yes")); err != nil {
			return nil, err
		}
	}
	clusters, err := filepath.Glob("/var/lib/naupegos/local/*")
	err = errors.Join(err, os.MkdirAll(filepath.Dir(mark), 0o755), os.WriteFile(mark, []byte(strings.Join(clusters, "\n")), 0o644))
	return func() error { return errors.Join(os.Remove(mark), lock.Close()) }, err
}

// result is the outcome of a tier.
type result struct {
	name, verdict   string
	took            time.Duration
	passed, skipped int
	bad             []string // tests that failed or did not end; the tier itself if its command failed
}

// run runs one tier; with resume, unless it has passed for this tree.
func (t *tier) run(ctx context.Context, tests []testFunc, full, resume bool) *result {
	began, res, content := time.Now(), &result{name: t.name, verdict: "passed"}, tree(ctx, full)
	system, err := os.ReadFile("/etc/os-release")
	switch {
	case t.bed && (err != nil || !strings.Contains(string(system), "VERSION_CODENAME=bookworm\n")):
		res.verdict = "not run: the OpenStack test bed needs Debian 12"
	case resume && content != "" && loadPasses()["tier "+t.name].Tree == content:
		res.verdict = "has passed for this tree"
	default:
		ran, err := t.try(ctx, tests, full)
		res.count(t.selected(tests, full), ran)
		if err = errors.Join(err, record(ctx, t.name, ran, err == nil && len(res.bad) == 0, content)); err != nil {
			res.bad = append(res.bad, fmt.Sprintf("%s: %v", t.name, err))
		}
		if res.took = time.Since(began); len(res.bad) > 0 {
			res.verdict = "FAILED: " + strings.Join(res.bad, ", ")
		} else if t.budget > 0 && res.took > t.budget {
			res.verdict = fmt.Sprintf("passed, over its budget of %v", t.budget)
		}
	}
	fmt.Printf("\nci: %s: %s\n", t.name, res.verdict)
	return res
}

// try runs the set-up and the tests of a tier. It returns the last event of each test that ran.
func (t *tier) try(ctx context.Context, tests []testFunc, full bool) (map[string]event, error) {
	if t.needs != "" {
		if err := show(exec.CommandContext(ctx, "make", append([]string{"--no-print-directory"}, strings.Fields(t.needs)...)...)); err != nil {
			return nil, fmt.Errorf("make %s: %w", t.needs, err)
		}
	}
	events := filepath.Join(".evidence", "ci", t.name+".json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(events), 0o755), os.RemoveAll(events)); err != nil {
		return nil, err
	}
	argv := t.argv(tests, full, events)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20", "NAUPEGOS_FULL=")
	if t.race { // the race detector needs cgo; by default, its programs sleep for a second before they exit
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	} else if full {
		cmd.Env = append(cmd.Env, "NAUPEGOS_FULL=1")
	}
	err := show(cmd)
	return readEvents(events), err
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
			res.bad = append(res.bad, id)
		default:
			res.bad = append(res.bad, id+" (did not end)")
		}
	}
}

// show runs a command with its output on the terminal. On an interrupt, the command and its children clean up: on a terminal, Ctrl-C reaches all of
// them, and sudo can read passwords; elsewhere show passes interrupts on, because go run and go tool do not.
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
func report(results []*result) error {
	all := &result{name: "PASS"}
	for _, res := range results {
		all.took, all.passed, all.skipped = all.took+res.took, all.passed+res.passed, all.skipped+res.skipped
		if all.bad = append(all.bad, res.bad...); len(all.bad) > 0 {
			all.name, all.verdict = "FAIL", ".evidence/TEST has the logs of a test's machines"
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, res := range append(results, all) {
		fmt.Fprintf(w, "%s\t%v\t%d passed\t%d skipped\t%s\n", res.name, res.took.Round(time.Second), res.passed, res.skipped, res.verdict)
	}
	if err := w.Flush(); err != nil || len(all.bad) == 0 {
		return err
	}
	return errors.New("failed: " + strings.Join(all.bad, ", "))
}
