package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	benchcluster "github.com/naupegos/naupegos/bench/cluster"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
)

// Names of the machines.
var (
	controlPlanes = []string{"bench-cp-1", "bench-cp-2", "bench-cp-3"}
	workers       = []string{"bench-general-1", "bench-general-2"}
)

// cluster is the cluster that a side upgrades.
type cluster struct {
	*benchcluster.Cluster
	bundle *bundle.Bundle
}

// on runs a shell command on a machine. input names a file for standard input; empty: none.
func (c *cluster) on(ctx context.Context, machine, command, input string) error {
	cmd := c.Command(ctx, "ssh", "bench", machine, "--", "set -e\n"+command)
	if input != "" {
		f, err := os.Open(input)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", machine, command, err, out)
	}
	return nil
}

// upgraded checks that all kubelets and API servers run the new release.
func (c *cluster) upgraded(ctx context.Context) error {
	kubelets, err := c.Kubectl(ctx, "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}")
	if err != nil {
		return err
	}
	if want := len(controlPlanes) + len(workers); strings.Count(kubelets, release.Default) != want {
		return fmt.Errorf("not all of %d kubelets are %s: %s", want, release.Default, kubelets)
	}
	for _, m := range controlPlanes {
		if err := c.on(ctx, m, "grep -q kube-apiserver:"+release.Default+" /etc/kubernetes/manifests/kube-apiserver.yaml", ""); err != nil {
			return err
		}
	}
	return nil
}
