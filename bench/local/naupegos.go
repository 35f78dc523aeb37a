package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/bench/cluster"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
)

const (
	version = release.Default
	asked   = "bench-cp-3" // the machine that requests the Service
)

// The bench has a workload of its own, the same on both sides, so the smoke test is off.
const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: bench}
spec:
  kubernetes: {version: ` + version + `}
  provider: {local: {}}
  controlPlane: {replicas: 3}
  workers: [{name: general, replicas: 2}]
  smokeTest: false
`

// runNaupegos measures `naupegos apply` on an empty store and removes the cluster.
func runNaupegos(ctx context.Context, program, html string) (_ times, err error) {
	dir, err := os.MkdirTemp("", "naupegos-bench-")
	if err != nil {
		return times{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		return times{}, err
	}
	call := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(context.WithoutCancel(ctx), program, append([]string{"--state-dir", dir}, args...)...)
		c.Stderr = os.Stderr
		return c
	}
	defer func() {
		if html != "" && err == nil {
			err = call("history", "bench", "--html", html).Run()
		}
		if e := call("destroy", "bench", "--yes", "--progress", "none").Run(); err == nil {
			err = e
		}
	}()
	began := time.Now()
	cpu, err := hostCPU()
	if err != nil {
		return times{}, err
	}
	apply := call("apply", "-f", file, "--yes", "--progress", "none")
	if err := apply.Start(); err != nil {
		return times{}, err
	}
	t, err := watchNaupegos(ctx, dir, began)
	if e := apply.Wait(); err == nil {
		err = e
	}
	if err != nil {
		return t, err
	}
	after, err := hostCPU()
	t.cpu = after - cpu
	return t, err
}

// watchNaupegos watches the cluster from outside while apply creates it.
func watchNaupegos(ctx context.Context, dir string, began time.Time) (times, error) {
	var rec *store.Cluster
	var secrets store.Secrets
	st, err := store.Open(ctx, store.Location{Dir: dir})
	if err != nil {
		return times{}, err
	}
	defer st.Close()
	var prov *local.Provider
	err = until(ctx, "the cluster has machines", func(ctx context.Context) error {
		if rec, err = st.Cluster(ctx, "bench"); err != nil {
			return err
		}
		secrets = st.Secrets(rec.ID)
		if prov, err = local.New(local.Options{ClusterID: rec.ID, ClusterName: "bench"}); err != nil {
			return err
		}
		if _, err := prov.Observe(ctx); err != nil {
			return err
		}
		_, err = prov.Machine(ctx, asked)
		return err
	})
	if err != nil {
		return times{}, err
	}
	keys := pki.Open(secrets, pki.Options{})
	vip, err := prov.VIP(ctx)
	if err != nil {
		return times{}, err
	}
	conf, err := layout.Params{ClusterName: "bench"}.AdminKubeconfig(ctx, keys, net.JoinHostPort(vip, "6443"))
	if err != nil {
		return times{}, err
	}
	client, err := kube.NewClient(conf, kube.ClientOptions{})
	if err != nil {
		return times{}, err
	}
	defer client.Close()
	private, err := keys.SSHKey(ctx)
	if err != nil {
		return times{}, err
	}
	dialer, err := newDialer(private, "")
	if err != nil {
		return times{}, err
	}
	defer dialer.Close()
	echo, err := echoImage(ctx)
	if err != nil {
		return times{}, err
	}
	return milestones(ctx, began, client, echo, func(ctx context.Context, network, addr string) (net.Conn, error) {
		m, err := prov.Machine(ctx, asked)
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}, network, addr)
	})
}

func newDialer(private []byte, agent string) (*remote.Dialer, error) {
	key, err := remote.ParseKey(private)
	if err != nil {
		return nil, err
	}
	return remote.NewDialer([]remote.Key{key}, remote.Options{AgentPath: agent}), nil
}

// theBundle returns the bundle for both sides.
func theBundle(ctx context.Context) (*bundle.Bundle, error) {
	b, err := cluster.Bundle(ctx)
	if err != nil {
		return nil, fmt.Errorf("make it with `make bundle`: %w", err)
	}
	return b, nil
}

func echoImage(ctx context.Context) (string, error) {
	b, err := theBundle(ctx)
	if err != nil {
		return "", err
	}
	img, err := b.Image("echo")
	return img.Ref, err
}
