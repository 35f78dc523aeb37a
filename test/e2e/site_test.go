//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// site is the source of a rig's machines, with facts that a test needs in addition to the command's output. With every provider, machines end up as
// containers of this host.
type site interface {
	// provider renders the document's spec.provider.
	provider() string
	// endpoint renders spec.endpoint of a cluster without gateways, and further lines for spec.controlPlane.
	endpoint() (endpoint, controlPlane string)
	// env returns additional environment variables for naupegos.
	env() []string
	// quick is the time limit of an apply without changes, on a busy host.
	quick() time.Duration
	// failover is the time limit until the API answers again after the death of the gateway with the virtual address.
	failover() time.Duration
	// host returns the ID under which this host keeps the machines of the rig's cluster.
	host(r *rig) string
	// off cuts a machine's power.
	off(r *rig, machine string)
	// gone asserts that nothing of the destroyed cluster is left, and that foreign resources still exist.
	gone(r *rig)
	// search passes the site's data about the cluster to clean, which reports secrets in it.
	search(r *rig, clean func(where string, text []byte))
	// evidence saves the site's information about a failed test, in addition to the machines' and the command's.
	evidence(r *rig, save func(name, text string))
}

// onHost is the site of local machines.
type onHost struct{}

func (onHost) provider() string { return "    local: {}\n" }

func (onHost) endpoint() (string, string) { return "    kind: direct\n", "" }

func (onHost) env() []string { return nil }

func (onHost) quick() time.Duration { return 3 * time.Second } // 1 s is the goal on an idle host

func (onHost) failover() time.Duration { return 6 * time.Second } // 3 s is the goal on an idle host

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
	if id == "" { // the test ended before the store had the cluster
		id = r.name + "-"
	}
	for _, d := range r.was.diff(takeSnapshot(r.t), id) {
		r.t.Errorf("%s (%s) left its mark: %s", r.name, r.id, d)
	}
}

func (onHost) search(*rig, func(string, []byte)) {}

func (onHost) evidence(*rig, func(string, string)) {}

// machineDir returns this host's directory for a machine of the rig.
func (r *rig) machineDir(machine string) string {
	r.t.Helper()
	return filepath.Join(machineRoot, r.site.host(r), "machines", machine)
}

// consoles returns the console output of the rig's machines, by name.
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
