//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/rack"
)

const rackDocument = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: rack}
spec:
  provider:
    metal:
      installTimeout: 40m
      pools:
        - {name: control-plane, machines: [modern]}
        - {name: old, machines: [old]}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: old, replicas: 1}]
  timeouts: {connect: 1m, machineBoot: 30m, nodeReady: 30m, step: 45m}
  smokeTest: false
`

// TestMetalFull makes a whole cluster of emulated machines, with the control plane on one with UEFI and a worker on one with BIOS. Then it replaces
// the worker without another free machine: the same machine is installed again, and joins with a new identity.
func TestMetalFull(t *testing.T) {
	testkit.OnlyFull(t, "TestMetal has a control plane that need not be emulated, and does more with its workers")
	b := bundletest.Of(t, release.Default)
	if os.Getenv(systemsEnv) == "" {
		dir := filepath.Join(built.dir, "systems")
		buildSystem(t, image.Options{Bundle: b, Virtual: true}, filepath.Join(dir, "whole"))
		t.Setenv(systemsEnv, dir)
	}
	if !inRack(t) {
		return
	}
	began := time.Now()
	lap := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(time.Second)) }
	p := newProvisioning(t)
	p.cluster = "rack"
	p.offers("whole")
	old, modern := p.add(rack.Spec{Name: "old", MemoryMiB: 2048, DiskGiB: 24}), p.add(rack.Spec{Name: "modern", UEFI: true, CPUs: 2, MemoryMiB: 3072, DiskGiB: 24})
	p.employed(old, modern)
	lap("both are approved")

	file := filepath.Join(p.dir, "cluster.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(rackDocument), 0o600))
	t.Log(p.run("apply", "-f", file, "--yes"))
	p.ready(2)
	lap("the cluster is there")
	const worker = "rack-old-1"
	const hostKey = "cat /etc/ssh/ssh_host_ed25519_key.pub" // made during the installation; the machine ID is QEMU's UUID of the machine
	was := p.in(worker, hostKey)
	p.in(worker, "touch /root/former")

	t.Log(p.run("node", "replace", p.cluster, worker, "--yes"))
	p.ready(2)
	lap("the worker is installed again")
	if now := p.in(worker, hostKey+"; ls /root/former 2>&1 || true; cat /proc/cmdline"); strings.HasPrefix(now, was) || strings.Contains(now, "/root/former\n") || !strings.Contains(now, "naupegos.slot=a") {
		t.Errorf("it was %s and is %s", was, now)
	}
	p.run("destroy", p.cluster, "--yes")
	if old.On() || modern.On() {
		t.Error("machines were given back, and are on")
	}
	lap("the machines are given back")
}
