//go:build integration

package runner

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBesideAnotherRoot runs a cluster of another state root in parallel with the runner's machines, on a host with the kernel's default
// settings. Whichever stops first, the other keeps the settings that it needs, and the last one restores the defaults.
func TestBesideAnotherRoot(t *testing.T) {
	if !alone(t) {
		return
	}
	const forwarding = "/proc/sys/net/ipv4/ip_forward" // of the network namespace
	testkit.Must(t, os.WriteFile(forwarding, []byte("0"), 0))
	expect := func(when, want string) {
		t.Helper()
		data, err := os.ReadFile(forwarding)
		testkit.Must(t, err)
		if got := strings.TrimSpace(string(data)); got != want {
			t.Errorf("%s: %s is %s, want %s", when, forwarding, got, want)
		}
	}
	f := newFakeCloud(t)
	o := f.bed()
	sweepAfter(t, o, []string{clusterID(fakeNetwork)[3:], o.short()})
	other := newCluster(t, filepath.Join(o.State, "other"))

	stop := start(t, o)
	var boot string
	await(t, atMost, "the runner's machine", func() error { return f.same(&boot) })
	other.makeNetwork()
	other.destroy()
	expect("the other root's cluster went", "1")
	await(t, atMost, "the runner's machine to be reached as before", func() error { return f.same(&boot) })
	other.makeNetwork()
	testkit.Must(t, stop())
	expect("the runner went", "1")
	for _, s := range other.steps() {
		if !testkit.KernelWide(s.Details) {
			t.Errorf("the runner went, and the other root's cluster has the step %q: %v", s.Title, s.Details)
		}
	}
	other.destroy()
	expect("both went", "0")
}

// cluster is a local cluster without machines and with a state root of its own.
type cluster struct {
	t *testing.T
	p *local.Provider
}

func newCluster(t *testing.T, root string) cluster {
	t.Helper()
	p, err := local.New(local.Options{ClusterID: "beside-" + clusterID(fakeNetwork)[3:][:4] + "beef", Root: root})
	testkit.Must(t, err)
	c := cluster{t, p}
	t.Cleanup(c.destroy)
	return c
}

func (c cluster) inventory() *provider.Inventory {
	c.t.Helper()
	inv, err := c.p.Observe(context.Background())
	testkit.Must(c.t, err)
	return inv
}

func (c cluster) steps() []*plan.Step {
	c.t.Helper()
	steps, err := c.p.Steps(c.t.Context(), provider.Wanted{}, c.inventory())
	testkit.Must(c.t, err)
	return steps
}

func (c cluster) run(steps []*plan.Step) {
	c.t.Helper()
	for _, s := range steps { // in the order of their dependencies
		testkit.Must(c.t, s.Run(context.Background(), told{slog.Default()}))
	}
}

func (c cluster) makeNetwork() { c.t.Helper(); c.run(c.steps()) }
func (c cluster) destroy()     { c.t.Helper(); c.run(c.p.Destroy(c.t.Context(), c.inventory())) }
