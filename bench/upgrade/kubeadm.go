package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/release"
)

// byKubeadm follows kubeadm's documentation ("Upgrading kubeadm clusters") without pauses for a person: control-plane machines in turn, then
// workers in turn, drained. It skips a step that costs time and that experts skip: it does not drain control-plane machines, because they run no
// user pods.
func byKubeadm(ctx context.Context, c *cluster) error {
	g, side := errgroup.WithContext(ctx)
	for _, m := range slices.Concat(controlPlanes, workers) {
		g.Go(func() error { return c.layOut(side, m) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, m := range controlPlanes {
		upgrade := "/root/next/kubeadm upgrade node --certificate-renewal=false --ignore-preflight-errors=all"
		if i == 0 {
			upgrade = "/root/next/kubeadm upgrade apply " + release.Default + " --yes --certificate-renewal=false --ignore-preflight-errors=all"
		}
		if err := c.on(ctx, m, upgrade+" && "+otherKubelet, ""); err != nil {
			return err
		}
		if err := c.ready(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range workers {
		if err := c.insist(ctx, "drain", m, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m"); err != nil {
			return err
		}
		if err := c.on(ctx, m, "/root/next/kubeadm upgrade node --ignore-preflight-errors=all && "+otherKubelet, ""); err != nil {
			return err
		}
		if err := c.ready(ctx, m); err != nil {
			return err
		}
		if err := c.insist(ctx, "uncordon", m); err != nil {
			return err
		}
	}
	return c.insist(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=5m")
}

// otherKubelet installs the programs and restarts kubelet.
const otherKubelet = "ln -sf /root/next/kubeadm /root/next/kubectl /root/next/kubelet /usr/local/bin/ && systemctl restart kubelet.service"

// layOut copies the programs and the images to a machine.
func (c *cluster) layOut(ctx context.Context, m string) error {
	role := "worker"
	if slices.Contains(controlPlanes, m) {
		role = "control-plane"
	}
	for _, name := range []string{"kubeadm", "kubectl", "kubelet"} {
		b, err := c.bundle.Binary(name)
		if err != nil {
			return err
		}
		if err := c.on(ctx, m, "mkdir -p /root/next && cat > /root/next/"+name+" && chmod 755 /root/next/"+name, c.bundle.Path(b.Digest)); err != nil {
			return err
		}
	}
	for _, i := range c.bundle.Manifest.Images {
		if !slices.Contains(i.Roles, role) {
			continue
		}
		if err := c.on(ctx, m, "ctr -n k8s.io images import - >/dev/null", c.bundle.Path(i.Archive.Digest)); err != nil {
			return err
		}
	}
	return nil
}

// insist retries kubectl, as experts' scripts do: an API server that kubeadm has just stopped or started closes connections, or denies requests
// before it has loaded the roles.
func (c *cluster) insist(ctx context.Context, args ...string) error {
	for tries := 1; ; tries++ {
		_, err := c.Kubectl(ctx, args...)
		if err == nil || tries == 10 {
			return err
		}
		fmt.Fprintln(os.Stderr, "kubeadm's side tries again:", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// ready waits until a node is Ready with the new kubelet.
func (c *cluster) ready(ctx context.Context, m string) error {
	for _, what := range []string{"jsonpath={.status.nodeInfo.kubeletVersion}=" + release.Default, "condition=Ready"} {
		if err := c.insist(ctx, "wait", "--for="+what, "--timeout=5m", "node/"+m); err != nil {
			return err
		}
	}
	return nil
}
