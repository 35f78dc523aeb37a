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

const nodeDocument = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: ` + racked + `}
spec:
  provider:
    metal:
      installTimeout: 40m
      pools:
        - {name: control-plane, machines: [native]}
        - {name: old, facts: {product: rack}, machines: [old]}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: old, replicas: 1}]
  timeouts: {connect: 1m, machineBoot: 15m, nodeReady: 15m, step: 40m}
  smokeTest: false
`

// TestNode takes one emulated machine from power-on to a node: it boots over the network, is discovered, approved and installed, boots from its disk,
// and joins a control plane that runs in a container of this host. TestMetal does more with more machines.
func TestNode(t *testing.T) {
	b := bundletest.Of(t, release.Default)
	if os.Getenv(systemsEnv) == "" {
		dir := filepath.Join(built.dir, "systems")
		buildSystem(t, image.Options{Bundle: workersBundle(b), Virtual: true}, filepath.Join(dir, "good"))
		t.Setenv(systemsEnv, dir)
		prepareFleet(t, b)
	}
	if !inRack(t) {
		return
	}
	began := time.Now()
	lap := func(what string) { t.Logf("FIGURE %s after %v", what, time.Since(began).Round(time.Second)) }
	f := newFleet(t, "e2enode", b, rackedCP)
	p := serveFleet(t, f)
	p.cluster = racked
	p.offers("good")
	old := p.add(rack.Spec{Name: "old", DiskGiB: 20})
	native := p.enlist(f, rackedCP)
	p.run("machine", "name", native, "native")
	p.employed(old)
	lap("the machine is approved")

	file := filepath.Join(p.dir, "cluster.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(nodeDocument), 0o600))
	t.Log(p.run("apply", "-f", file, "--yes"))
	p.ready(2)
	lap("the machine is a node")
	if out := p.in(rackedOld, "hostname; cat /proc/cmdline; findmnt -no SOURCE /; cat /var/lib/naupegos-machine/machine.json"); !strings.HasPrefix(out, rackedOld+"\n") ||
		!strings.Contains(out, "naupegos.slot=a") || !strings.Contains(out, "/dev/vda1\n") || !strings.Contains(out, old.UUID) {
		t.Errorf("%s: %s", rackedOld, out)
	}
	if r := naupegos(t, p.asking(), "apply", "-f", file, "--yes"); r.code != 0 || !strings.Contains(r.stdout, "No changes") {
		t.Errorf("there is more to do: %v", r)
	}
	p.run("destroy", racked, "--yes")
	if d := testkit.Value(p.show("old"))(t); d.Cluster != "" || old.On() {
		t.Errorf("the machine was given back, belongs to %q and is on: %t", d.Cluster, old.On())
	}
	lap("the machine is given back")
}
