package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/bench/cluster"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
)

const helmModule = "helm.sh/helm/v4@v4.2.4"

// expert installs charts as a careful administrator does: at the same time, and without waiting for what the next step does not need.
type expert struct {
	cluster *cluster.Cluster
	bundle  *bundle.Bundle
	helm    string
	modules map[string]string // directory of each set's module
}

// newExpert compiles Helm and fetches the modules with the charts, in the catalogue's versions.
func newExpert(ctx context.Context, c *cluster.Cluster) (*expert, error) {
	e := &expert{cluster: c, helm: filepath.Join(c.Dir, "helm"), modules: map[string]string{}}
	install := exec.CommandContext(ctx, "go", "install", "-trimpath", strings.Replace(helmModule, "@", "/cmd/helm@", 1))
	install.Env = append(install.Environ(), "GOBIN="+c.Dir, "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile Helm: %w\n%s", err, out)
	}
	for _, s := range catalogue.Sets() {
		if !slices.Contains(measured, s.Name) {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.Module+"@"+s.Version)
		cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), "GOFLAGS=-mod=mod")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w\n%s", s.Module, err, out)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			return nil, err
		}
		e.modules[s.Name] = module.Dir
	}
	return e, nil
}

// install starts all installations at once and returns when Helm reports all of them ready.
func (e *expert) install(ctx context.Context) error {
	return together(
		func() error {
			return e.chart(ctx, catalogue.MetricsServer, "kube-system", filepath.Join(e.modules[catalogue.MetricsServer], "charts/metrics-server"),
				map[string]string{"image": catalogue.MetricsServer}, "args={--kubelet-insecure-tls}")
		},
		func() error {
			err := e.chart(ctx, catalogue.MetalLB, "metallb-system", filepath.Join(e.modules[catalogue.MetalLB], "charts/metallb"),
				map[string]string{"controller.image": catalogue.ImageMetalLBController, "speaker.image": catalogue.ImageMetalLBSpeaker},
				"frrk8s.enabled=false", "speaker.frr.enabled=false")
			if err != nil {
				return err
			}
			file := filepath.Join(e.cluster.Dir, "pool.yaml")
			if err := os.WriteFile(file, []byte(addresses), 0o600); err != nil {
				return err
			}
			_, err = e.cluster.Kubectl(ctx, "apply", "-f", file)
			return err
		},
	)
}

const addresses = `apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: services, namespace: metallb-system}
spec: {addresses: ["` + pool + `"]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: services, namespace: metallb-system}
spec: {ipAddressPools: [services]}
`

// chart installs one chart with the bundle's images, and waits until its pods are ready.
func (e *expert) chart(ctx context.Context, name, namespace, dir string, images map[string]string, set ...string) error {
	args := []string{"install", name, dir, "--namespace", namespace, "--create-namespace", "--wait", "--timeout", patience.String()}
	for field, name := range images {
		img, err := e.bundle.Image(name)
		if err != nil {
			return err
		}
		at := strings.LastIndex(img.Ref, ":")
		set = append(set, field+".repository="+img.Ref[:at], field+".tag="+img.Ref[at+1:])
	}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	return e.run(ctx, args...)
}

// remove takes all charts and their definitions out of the cluster.
func (e *expert) remove(ctx context.Context) error {
	return together(
		func() error {
			return e.run(ctx, "uninstall", catalogue.MetricsServer, "--namespace", "kube-system", "--wait")
		},
		func() error {
			_, err := e.cluster.Kubectl(ctx, "delete", "-f", filepath.Join(e.cluster.Dir, "pool.yaml"))
			if err == nil {
				err = e.run(ctx, "uninstall", catalogue.MetalLB, "--namespace", "metallb-system", "--wait")
			}
			if err == nil {
				_, err = e.cluster.Kubectl(ctx, "delete", "namespace", "metallb-system")
			}
			return err
		},
	)
}

func (e *expert) run(ctx context.Context, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, e.helm, append(args, "--kubeconfig", filepath.Join(e.cluster.Dir, "kubeconfig"))...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", strings.Join(args[:2], " "), err, said.String())
	}
	return nil
}

// together runs functions at the same time and returns all errors.
func together(list ...func() error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, f := range list {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	return errors.Join(errs...)
}
