//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// site is where a rig's machines come from, and what a test must know of it besides what the command says. Whatever the
// provider, machines are containers of this host in the end.
type site interface {
	// provider renders what the document says below spec.provider.
	provider() string
	// endpoint renders spec.endpoint, and lines that go with it below spec.controlPlane, of a cluster without gateways.
	endpoint() (endpoint, controlPlane string)
	// env is what naupegos needs in its environment.
	env() []string
	// quick is how long an apply may take that finds nothing to do, on a machine that other work keeps busy.
	quick() time.Duration
	// failover is how soon the API must answer again where the gateway dies that has the virtual address.
	failover() time.Duration
	// host is the ID under which this host keeps the machines of the rig's cluster.
	host(r *rig) string
	// off switches a machine off as if its power had failed.
	off(r *rig, machine string)
	// gone asserts that nothing of the destroyed cluster is left, and that what others have is.
	gone(r *rig)
	// search has clean look at what the site itself keeps of the cluster, where no secret may be.
	search(r *rig, clean func(where string, text []byte))
	// evidence saves what tells, besides machines and the command, why a test has failed.
	evidence(r *rig, save func(name, text string))
}

// onHost is the site of local machines.
type onHost struct{}

func (onHost) provider() string { return "    local: {}\n" }

func (onHost) endpoint() (string, string) { return "    kind: direct\n", "" }

func (onHost) env() []string { return nil }

func (onHost) quick() time.Duration { return 3 * time.Second } // 1 s is the goal on an idle one

func (onHost) failover() time.Duration { return 6 * time.Second } // 3 s is the goal on an idle one

func (onHost) host(r *rig) string {
	r.t.Helper()
	return r.clusterID()
}

func (s onHost) off(r *rig, machine string) {
	r.t.Helper()
	p, err := local.New(local.Options{ClusterID: s.host(r), ClusterName: r.name})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.Power(r.t.Context(), machine, "kill"); err != nil {
		r.t.Fatal(err)
	}
}

func (onHost) gone(r *rig) {
	r.t.Helper()
	id := r.id
	if id == "" { // it ended before the store knew it
		id = r.name + "-"
	}
	for _, d := range r.was.diff(takeSnapshot(r.t), id) {
		r.t.Errorf("%s (%s) left its mark: %s", r.name, r.id, d)
	}
}

func (onHost) search(*rig, func(string, []byte)) {}

func (onHost) evidence(*rig, func(string, string)) {}

// machineDir is where this host keeps a machine of the rig's.
func (r *rig) machineDir(machine string) string {
	r.t.Helper()
	return filepath.Join(machineRoot, r.site.host(r), "machines", machine)
}

// consoles returns the consoles of the rig's machines, by name.
func (r *rig) consoles() map[string]string {
	out := map[string]string{}
	paths, _ := filepath.Glob(r.machineDir("*") + "/console.log")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			out[filepath.Base(filepath.Dir(path))] = string(text)
		}
	}
	return out
}
