// Command upgrade measures, one after the other in one run, how long an upgrade by one minor release takes and how many requests of a client
// without retries fail: `naupegos upgrade --finish` against `kubeadm upgrade`, driven by a program that works like an expert's script.
//
// Both sides begin with the same cluster of the former release: 3 control-plane machines, 2 workers and 2 gateways on this host, created by
// naupegos; it is an ordinary kubeadm cluster. Both first copy images and programs to all machines at once, and both times include that. The
// command prints `upgrade ratio: X` and `failed requests: A against B`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	benchcluster "github.com/naupegos/naupegos/bench/cluster"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/release"
)

func main() {
	kube.Quiet()
	program := flag.String("naupegos", "bin/naupegos", "the program to measure")
	from := flag.String("from", former(), "the release to begin with")
	only := flag.String("only", "", "measure one side: naupegos or kubeadm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *program, *from, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench-upgrade:", err)
		os.Exit(1)
	}
}

// former returns the newest release of the minor release before the default's.
func former() string {
	for _, v := range release.Versions() {
		if release.MinorOf(v) != release.MinorOf(release.Default) {
			return v
		}
	}
	return release.Default
}

// result is the measurement of one side.
type result struct {
	took    time.Duration
	failed  int // number of requests
	sent    int
	longest time.Duration // longest time between two writes
}

func (r result) String() string {
	return fmt.Sprintf("%5.1f s, %d of %d requests failed, longest time without a write %.1f s", r.took.Seconds(), r.failed, r.sent, r.longest.Seconds())
}

func run(ctx context.Context, program, from, only string) error {
	results := map[string]result{}
	for _, side := range []struct {
		name    string
		upgrade func(context.Context, *cluster) error
	}{{"naupegos", byNaupegos}, {"kubeadm", byKubeadm}} {
		if only != "" && only != side.name {
			continue
		}
		r, err := measure(ctx, program, from, side.upgrade)
		if err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		fmt.Printf("%-9s %s\n", side.name, r)
		results[side.name] = r
	}
	if only != "" {
		return nil
	}
	n, k := results["naupegos"], results["kubeadm"]
	fmt.Printf("upgrade ratio: %.2f\n", n.took.Seconds()/k.took.Seconds())
	fmt.Printf("failed requests: %d against %d\n", n.failed, k.failed)
	return nil
}

// measure creates a cluster, upgrades it under load, and removes it.
func measure(ctx context.Context, program, from string, upgrade func(context.Context, *cluster) error) (r result, err error) {
	c := &cluster{}
	if c.Cluster, err = benchcluster.New(program); err != nil {
		return r, err
	}
	defer func() {
		if e := c.Close(); err == nil {
			err = e
		}
	}()
	if c.bundle, err = benchcluster.Bundle(ctx); err != nil {
		return r, err
	}
	if err := c.Naupegos(ctx, "bundle", "build", "--kubernetes", from); err != nil {
		return r, err
	}
	if err := c.Apply(ctx, fmt.Sprintf(document, from)); err != nil {
		return r, err
	}
	l, err := startLoad(ctx, c)
	if err != nil {
		return r, err
	}
	began := time.Now()
	err = upgrade(ctx, c)
	took := time.Since(began)
	r = l.end()
	r.took = took
	if err != nil {
		return r, err
	}
	return r, c.upgraded(ctx)
}

const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: bench}
spec:
  kubernetes: {version: %s}
  provider: {local: {}}
  controlPlane: {replicas: 3}
  workers: [{name: general, replicas: 2}]
`

func byNaupegos(ctx context.Context, c *cluster) error {
	return c.Naupegos(ctx, "upgrade", "bench", "--to", release.Default, "--finish", "--yes", "--progress", "none")
}
