// Command local measures, side by side in one run, how long it takes to create a highly available cluster on this machine from scratch: `naupegos
// apply` against bare kubeadm on identical machines, driven by a program that loses no time.
//
// Both sides get the same seven machines (3 control planes, 2 workers, 2 gateways with HAProxy and keepalived) from the same prepared image,
// which contains binaries and container images. The command prints `ratio: X` (all five nodes Ready) and `service ratio: X` (a Service answers
// from another node): the time of naupegos divided by that of kubeadm.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/kube"
)

func main() {
	kube.Quiet()
	runs := flag.Int("runs", 1, "runs of each side; the median counts")
	only := flag.String("only", "", "measure one side: naupegos or kubeadm")
	naupegos := flag.String("naupegos", "bin/naupegos", "the program to measure")
	html := flag.String("html", "", "write the timeline of naupegos' last run to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *runs, *only, *naupegos, *html); err != nil {
		fmt.Fprintln(os.Stderr, "bench-local:", err)
		os.Exit(1)
	}
}

// times are the results of one run, measured from its start.
type times struct {
	api, ready, service time.Duration // the API answers; five nodes are Ready; a Service answers from another node
	cpu                 time.Duration // CPU time of the whole host during the run
}

func (t times) String() string {
	return fmt.Sprintf("API %5.1f s   5 nodes Ready %5.1f s   Service %5.1f s   host CPU %5.1f s",
		t.api.Seconds(), t.ready.Seconds(), t.service.Seconds(), t.cpu.Seconds())
}

func run(ctx context.Context, runs int, only, naupegos, html string) error {
	sides := []struct {
		name string
		run  func(context.Context) (times, error)
	}{
		{"naupegos", func(ctx context.Context) (times, error) { return runNaupegos(ctx, naupegos, html) }},
		{"kubeadm", func(ctx context.Context) (times, error) { return runKubeadm(ctx, naupegos) }},
	}
	if err := prepare(ctx, naupegos); err != nil {
		return fmt.Errorf("prepare the machines' image: %w", err)
	}
	results := map[string][]times{}
	for i := range runs {
		for _, s := range sides {
			if only != "" && only != s.name {
				continue
			}
			t, err := s.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Printf("%-9s run %d: %s\n", s.name, i+1, t)
			results[s.name] = append(results[s.name], t)
		}
	}
	n, k := results["naupegos"], results["kubeadm"]
	if len(n) == 0 || len(k) == 0 {
		return nil
	}
	ratio := func(of func(times) time.Duration) float64 { return median(n, of).Seconds() / median(k, of).Seconds() }
	fmt.Printf("ratio: %.2f\n", ratio(func(t times) time.Duration { return t.ready }))
	fmt.Printf("service ratio: %.2f\n", ratio(func(t times) time.Duration { return t.service }))
	return nil
}

func median(list []times, of func(times) time.Duration) time.Duration {
	var d []time.Duration
	for _, t := range list {
		d = append(d, of(t))
	}
	slices.Sort(d)
	return d[len(d)/2]
}
