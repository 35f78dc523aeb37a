// Command boot measures, in one run, how many requests per second the boot endpoints answer and the 99th percentile of the answer times: for
// naupegos server and for matchbox 0.11.0, which is built from the Go module proxy.
//
// Both servers read the same directory of groups, profiles and templates and run in processes of their own. A third process sends both the same
// requests, one server after the other, over loopback. The run covers 1, 100, 1000 and 10,000 machines with a group each, and prints `ratio at
// 1000: X` and so on: Naupegos' requests per second divided by matchbox's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// sizes are the measured numbers of machines.
var sizes = []int{1, 100, 1000, 10000}

func main() {
	o := options{}
	flag.DurationVar(&o.each, "each", 5*time.Second, "how long each side is asked at each size, in two parts; a side that is slow is asked until it has answered 40 times")
	flag.IntVar(&o.connections, "connections", 16, "how many requests are under way at a time")
	flag.StringVar(&o.program, "naupegos", "bin/naupegos", "the program to measure")
	loading := flag.String("load", "", "internal: ask the server at this URL")
	machines := flag.Int("machines", 1, "internal: of -load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *loading != "":
		err = load(ctx, *loading, *machines, o)
	default:
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-boot:", err)
		os.Exit(1)
	}
}

type options struct {
	program     string
	each        time.Duration
	connections int
}

// buildMatchbox builds matchbox from the module that pins it.
func buildMatchbox(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "matchbox")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", program, "github.com/poseidon/matchbox/cmd/matchbox")
	cmd.Dir, cmd.Env = "bench/boot/matchbox", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build matchbox: %w\n%s", err, out)
	}
	return program, nil
}

// compare measures both sides at all sizes.
func compare(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "naupegos-bench-boot-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("building matchbox 0.11.0")
	matchbox, err := buildMatchbox(ctx, dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var all []row
	for _, n := range sizes {
		r, err := at(ctx, self, matchbox, filepath.Join(dir, fmt.Sprint(n)), n, o)
		if err != nil {
			return fmt.Errorf("at %d machines: %w", n, err)
		}
		all = append(all, r)
		fmt.Printf("%6d machines  naupegos %s\n                 matchbox %s\n", n, r.ours, r.theirs)
	}
	flat, err := flatness(ctx, self, dir, o)
	if err != nil {
		return err
	}
	return report(all, flat)
}

// at measures both sides at one size.
func at(ctx context.Context, self, matchbox, data string, n int, o options) (row, error) {
	r := row{machines: n}
	if err := rack(filepath.Join(data, "boot"), n); err != nil {
		return r, err
	}
	ours, err := startOurs(ctx, o.program, data)
	if err != nil {
		return r, err
	}
	defer ours.stop()
	theirs, err := start(ctx, matchbox, func(addr string) []string {
		return []string{"-address", addr, "-data-path", filepath.Join(data, "boot"), "-assets-path", "", "-log-level", "error"}
	})
	if err != nil {
		return r, err
	}
	defer theirs.stop()
	if err := same(ctx, ours.url, theirs.url, n); err != nil {
		return r, err
	}
	o.each /= 2
	for range 2 { // alternate the sides, so that other load on the host affects both
		for side, total := range map[*server]*result{ours: &r.ours, theirs: &r.theirs} {
			part, err := ask(ctx, self, side.url, n, o)
			if err != nil {
				return r, err
			}
			total.add(part)
		}
	}
	r.ours.memory, r.theirs.memory = ours.memory(), theirs.memory()
	return r, nil
}

// startOurs runs naupegos server on a state directory.
func startOurs(ctx context.Context, program, state string) (*server, error) {
	return start(ctx, program, func(addr string) []string {
		return []string{"server", "--state-dir", state, "--listen-http", addr, "--listen-https", "127.0.0.1:0"}
	})
}

// flatness measures Naupegos at every size once more, in short turns, so that other load on the host affects all sizes alike. It returns the
// relative drop of the request rate from the smallest to the largest size.
func flatness(ctx context.Context, self, dir string, o options) (float64, error) {
	totals := make([]result, len(sizes))
	servers := make([]*server, len(sizes))
	for i, n := range sizes {
		s, err := startOurs(ctx, o.program, filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			return 0, err
		}
		defer s.stop()
		servers[i] = s
	}
	o.each /= 10
	for range 8 {
		for i, n := range sizes {
			part, err := ask(ctx, self, servers[i].url, n, o)
			if err != nil {
				return 0, err
			}
			totals[i].add(part)
		}
	}
	return totals[len(totals)-1].rate() / totals[0].rate(), nil
}
