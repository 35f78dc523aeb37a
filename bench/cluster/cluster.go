// Package cluster runs naupegos on a cluster of a benchmark, in a state directory of its own.
package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
)

// Bundle returns the bundle of the default release with exactly these sets of addons, from the user's library.
func Bundle(ctx context.Context, addons ...string) (*bundle.Bundle, error) {
	root, err := bundle.DefaultRoot()
	if err != nil {
		return nil, err
	}
	lib, err := bundle.OpenLibrary(root)
	if err != nil {
		return nil, err
	}
	return lib.Find(ctx, release.Default, addons...)
}

// Name is the cluster's name in the documents of all benchmarks.
const Name = "bench"

// Cluster is a cluster under measurement.
type Cluster struct {
	Program string // naupegos
	Dir     string // its state directory, with the document and the kubeconfig
}

// New returns a cluster with an empty state directory, which Close removes.
func New(program string) (*Cluster, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "naupegos-bench-")
	return &Cluster{Program: program, Dir: dir}, err
}

// Close destroys the cluster and removes its state directory.
func (c *Cluster) Close() error {
	err := c.Naupegos(context.Background(), "destroy", Name, "--yes", "--progress", "none")
	if err == nil {
		err = os.RemoveAll(c.Dir)
	}
	return err
}

// Apply carries out a document.
func (c *Cluster) Apply(ctx context.Context, document string) error {
	file := filepath.Join(c.Dir, "bench.yaml")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		return err
	}
	return c.Naupegos(ctx, "apply", "-f", file, "--yes", "--progress", "none")
}

// Command returns a command of naupegos on the state directory.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.Program, append([]string{"--state-dir", c.Dir}, args...)...)
}

// Naupegos runs the program and discards its output unless it fails.
func (c *Cluster) Naupegos(ctx context.Context, args ...string) error {
	var said bytes.Buffer
	cmd := c.Command(ctx, args...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("naupegos %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return nil
}

// Kubectl returns the standard output of kubectl.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := c.Command(ctx, append([]string{"kubectl", Name, "--"}, args...)...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}

// Kubeconfig writes the administrator's kubeconfig and returns its path.
func (c *Cluster) Kubeconfig(ctx context.Context) (string, error) {
	file := filepath.Join(c.Dir, "kubeconfig")
	return file, c.Naupegos(ctx, "kubeconfig", Name, "--file", file)
}

// Client returns a client whose requests end after timeout and are not throttled.
func (c *Cluster) Client(ctx context.Context, timeout time.Duration) (*kubernetes.Clientset, error) {
	file, err := c.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	cfg.Timeout, cfg.QPS = timeout, -1
	return kubernetes.NewForConfig(cfg)
}
