//go:build e2e

package e2e_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// fleet is a set of machines on this host that belong to no cluster: a user's hosts.
type fleet struct {
	t       testing.TB
	p       *local.Provider
	key     []byte // private, for SSH
	dialer  *remote.Dialer
	machine map[string]provider.Machine
	bare    map[string]bool // by name: machines without a bundle's files; see strip
}

// newFleet creates and boots machines of these names, which are destroyed when the test ends. With a bundle, they contain its images and binaries as
// a cluster's machines do. The fleet's ID begins with name and is unique, so that two runs of a test on one host do not take each other's machines
// for their own.
func newFleet(t testing.TB, name string, b *bundle.Bundle, names ...string) *fleet {
	t.Helper()
	var unique [4]byte
	if _, err := rand.Read(unique[:]); err != nil {
		t.Fatal(err)
	}
	id := name + "-" + hex.EncodeToString(unique[:])
	key, public, err := remote.GenerateKey("e2e")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := remote.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := local.New(fleetOptions(id, b, []string{strings.TrimSpace(public)}))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, p: p, key: key, dialer: remote.NewDialer([]remote.Key{signer}, remote.Options{}), machine: map[string]provider.Machine{}, bare: map[string]bool{}}
	was := takeSnapshot(t)
	t.Cleanup(func() {
		if err := f.dialer.Close(); err != nil {
			t.Error(err)
		}
		inv, err := p.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		f.carryOut("destroy", p.Destroy(context.Background(), inv))
		for _, d := range was.diff(takeSnapshot(t), id) {
			t.Errorf("%s left its mark: %s", id, d)
		}
	})
	var want provider.Wanted
	for i, n := range names {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: n, Role: provider.Worker, Pool: "hosts", Index: i + 1})
	}
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(t.Context(), want, inv)
	if err != nil {
		t.Fatal(err)
	}
	f.carryOut("create", steps)
	for _, n := range names {
		if f.machine[n], err = p.Machine(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// fleetOptions returns the options of a fleet. If the test has its own network namespace, the fleet is in it.
func fleetOptions(id string, b *bundle.Bundle, keys []string) local.Options {
	return local.Options{
		ClusterID: id, ClusterName: id, Bundle: b, AgentBinary: filepath.Join(filepath.Dir(built.bin), "naupegos-agent"),
		SSHPublicKeys: keys, Supervisor: testkit.InOwnNetwork(built.bin, local.SupervisorCommand),
	}
}

func (f *fleet) carryOut(verb string, steps []*plan.Step) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p := &plan.Plan{Verb: verb, Cluster: "fleet", Steps: steps}
	if _, err := plan.Execute(ctx, p, plan.Options{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) host(name string) remote.Host {
	m := f.machine[name]
	return remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}
}

// try runs a shell command on a machine.
func (f *fleet) try(name, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := f.dialer.Run(ctx, f.host(name), nil, "sh", "-c", command)
	return string(out), err
}

// run runs a shell command on a machine, which must succeed.
func (f *fleet) run(name, command string) string {
	f.t.Helper()
	out, err := f.try(name, command)
	if err != nil {
		f.t.Fatalf("%s: %s: %v: %s", name, command, err, out)
	}
	return out
}

// unpack unpacks a tar archive on a machine, over its root directory.
func (f *fleet) unpack(name string, archive []byte) {
	f.t.Helper()
	if _, err := tar.NewReader(bytes.NewReader(archive)).Next(); err != nil {
		f.t.Fatalf("not an archive: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := f.dialer.Run(ctx, f.host(name), bytes.NewReader(archive), "tar", "-C", "/", "-xf", "-"); err != nil {
		f.t.Fatal(err)
	}
}
