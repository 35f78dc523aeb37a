// Command ci runs the tiers of the tests, which the table in tiers.go lists. gotestsum runs and shows the tests of a tier.
//
//	go run ./hack/ci test      the fixed set: the same tests on every host, in every run
//	go run ./hack/ci full      every test; a tier that has passed for this tree does not run again
//	go run ./hack/ci NAME...   some tiers or steps of set-up, such as unit, life or bundle; with NAUPEGOS_FULL=1 as full runs them
//	go run ./hack/ci busy      the unit and race tiers ten times, next to one busy loop per processor
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
	"runtime"
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
	r := &runner{tests: tests, full: os.Getenv("NAUPEGOS_FULL") != "", wanted: map[string]bool{"setup": true}}
	word := strings.Join(args, " ")
	switch word {
	case "report":
		return printPasses(tests)
	case "full":
		r.full, r.resume = true, true
	case "busy":
		r.count, args = 10, []string{"unit", "race"}
		for range runtime.NumCPU() {
			loop := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
			loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := loop.Start(); err != nil {
				return err
			}
		}
	}
	for _, t := range tiers {
		if word == "full" || word == "test" && !t.full {
			args = append(args, t.name)
		}
	}
	if unknown := r.want(args); word != "full" && word != "test" && unknown != "" {
		return fmt.Errorf("there is no tier and no step %q in hack/ci/tiers.go", unknown)
	}
	end, err := begin(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.run(ctx), end())
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
