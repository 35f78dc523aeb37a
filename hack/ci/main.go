// Command ci runs the test tiers in the table of tiers.go. gotestsum runs a tier's tests and shows their results.
//
//	go run ./hack/ci test         the fixed set: the same tests on every host and in every run
//	go run ./hack/ci full         every test, except tiers that already passed for this tree
//	go run ./hack/ci NAME...      single tiers, such as unit or life; NAUPEGOS_FULL=1 selects their full set
//	go run ./hack/ci busy         the unit and race tiers ten times, next to one busy loop per processor
//	go run ./hack/ci report       for each test: when and on which commit it last passed, and how long it took
//	go run ./hack/ci list [full]  the tests of each tier
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
	"runtime"
	"slices"
	"strings"
	"syscall"
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
	r := &runner{tests: tests, full: os.Getenv("NAUPEGOS_FULL") != ""}
	want := func(t *tier) bool { return slices.Contains(args, t.name) }
	switch strings.Join(args, " ") {
	case "report":
		return printPasses(tests)
	case "list", "list full":
		for i := range tiers {
			if t := &tiers[i]; !t.full || len(args) > 1 {
				fmt.Println(t.name + "\t" + strings.Join(t.selected(tests, len(args) > 1), "\n"+t.name+"\t"))
			}
		}
		return nil
	case "test":
		want = func(t *tier) bool { return !t.full }
	case "full":
		r.full, r.resume = true, true
		want = func(*tier) bool { return true }
	case "busy":
		r.count = 10
		want = func(t *tier) bool { return t.name == "unit" || t.name == "race" }
		for range runtime.NumCPU() {
			loop := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
			loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := loop.Start(); err != nil {
				return err
			}
		}
	default:
		for _, name := range args {
			if !slices.ContainsFunc(tiers, func(t tier) bool { return t.name == name }) {
				return fmt.Errorf("unknown tier %q; go run ./hack/ci list shows the tiers", name)
			}
		}
	}
	end, err := begin(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.run(ctx, want), end())
}

// begin refuses a second run on this host, and cleans up after a killed run, unless the host already had clusters before that run, which may be the
// user's. It returns a function that ends the run.
func begin(ctx context.Context) (end func() error, err error) {
	lock, err := net.Listen("unix", "@naupegos-ci") // an abstract socket vanishes with its process
	if err != nil {
		return nil, errors.New("another test run is active on this host: wait for it, or interrupt it")
	}
	mark := cacheFile("running")
	if before, err := os.ReadFile(mark); err == nil && len(before) == 0 {
		fmt.Println("ci: cleaning up after a killed run")
		if err := show(exec.CommandContext(ctx, "hack/fresh", "--yes")); err != nil {
			return nil, err
		}
	}
	clusters, err := filepath.Glob("/var/lib/naupegos/local/*")
	err = errors.Join(err, os.MkdirAll(filepath.Dir(mark), 0o755), os.WriteFile(mark, []byte(strings.Join(clusters, "\n")), 0o644))
	return func() error { return errors.Join(os.Remove(mark), lock.Close()) }, err
}
