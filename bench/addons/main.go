// Command addons measures, side by side in one run, how long it takes until two addons work on a running cluster: `naupegos apply` of a document
// with metrics-server and MetalLB, against `helm install` of the projects' own charts, started at the same time by a program that works like an
// expert's script. Only these two modules hold charts that fit the bundle's images: our own main programs of cert-manager and external-dns know
// fewer flags than their charts pass.
//
// Both sides get the same cluster (3 control planes, 2 workers and 2 gateways on this host) with the same images, which its machines hold before.
// The addons work when the metrics API has all nodes and a Service of type LoadBalancer has an address. The command prints `addons ratio: X`, the
// time of naupegos divided by that of Helm, and the time of an apply that finds nothing to do, with and without addons.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/naupegos/naupegos/bench/cluster"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/release"
)

const bare = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: ` + cluster.Name + `}
spec:
  kubernetes: {version: ` + release.Default + `}
  provider: {local: {network: {cidr: 10.76.6.0/24}}}
  controlPlane: {replicas: 3}
  workers: [{name: general, replicas: 2}]
  smokeTest: false
`

const (
	nodes = 5
	pool  = "10.76.6.200-10.76.6.209"

	withAddons = bare + "  addons:\n    - {name: metrics-server}\n    - {name: metallb, metallb: {pools: [{name: services, addresses: [" + pool + "]}]}}\n"
)

var measured = []string{catalogue.MetricsServer, catalogue.MetalLB}

func main() {
	kube.Quiet()
	runs := flag.Int("runs", 1, "runs of each side; the median counts")
	program := flag.String("naupegos", "bin/naupegos", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *program, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "bench-addons:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, runs int) (err error) {
	c, err := cluster.New(program)
	if err != nil {
		return err
	}
	expert, err := newExpert(ctx, c)
	if err != nil {
		return err
	}
	if err := c.Naupegos(ctx, "bundle", "build", "--addons", strings.Join(measured, ",")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Apply(ctx, withAddons); err != nil { // the images arrive
		return err
	}
	with, err := idle(ctx, c, withAddons)
	if err != nil {
		return err
	}
	if err := strip(ctx, c); err != nil {
		return err
	}
	without, err := idle(ctx, c, bare)
	if err != nil {
		return err
	}
	set, err := c.Client(ctx, 10*time.Second)
	if err != nil {
		return err
	}
	if expert.bundle, err = cluster.Bundle(ctx, measured...); err != nil {
		return err
	}
	var byHelm, byNaupegos []time.Duration
	for range runs {
		took, err := measure(ctx, set, expert.install)
		if err != nil {
			return fmt.Errorf("helm: %w", err)
		}
		fmt.Printf("helm      all addons work after %5.1f s\n", took.Seconds())
		byHelm = append(byHelm, took)
		if err := errors.Join(tidy(ctx, set), expert.remove(ctx)); err != nil {
			return fmt.Errorf("helm: %w", err)
		}
		took, err = measure(ctx, set, func(ctx context.Context) error { return c.Apply(ctx, withAddons) })
		if err != nil {
			return fmt.Errorf("naupegos: %w", err)
		}
		fmt.Printf("naupegos  all addons work after %5.1f s\n", took.Seconds())
		byNaupegos = append(byNaupegos, took)
		if err := errors.Join(tidy(ctx, set), strip(ctx, c)); err != nil {
			return fmt.Errorf("naupegos: %w", err)
		}
	}
	fmt.Printf("an apply without changes: %.1f s with addons, %.1f s without\n", with.Seconds(), without.Seconds())
	fmt.Printf("addons ratio: %.2f\n", median(byNaupegos).Seconds()/median(byHelm).Seconds())
	return nil
}

// measure returns the time until install has ended and all addons work.
func measure(ctx context.Context, set *kubernetes.Clientset, install func(context.Context) error) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := install(ctx)
		if err != nil {
			cancel()
		}
		done <- err
	}()
	works := allWork(ctx, set)
	if err := <-done; err != nil {
		return 0, err
	}
	return time.Since(began), works
}

// strip removes the addons, and waits until their namespace is gone.
func strip(ctx context.Context, c *cluster.Cluster) error {
	err := c.Apply(ctx, bare)
	if err == nil {
		_, err = c.Kubectl(ctx, "wait", "--for=delete", "namespace/metallb-system", "--timeout", patience.String())
	}
	return err
}

// idle returns the time of an apply that finds nothing to do.
func idle(ctx context.Context, c *cluster.Cluster, document string) (time.Duration, error) {
	began := time.Now()
	err := c.Apply(ctx, document)
	return time.Since(began), err
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
