//go:build integration

package local

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/provider/providertest"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// TestConformanceOnMachines checks the provider's interface on real machines, in a network of their own, next to those of another cluster in the
// same directory. TestMachinesLife covers what is specific to this provider.
func TestConformanceOnMachines(t *testing.T) {
	if !alone(t) {
		return
	}
	stranger := newRig(t, supervisedHere)
	stranger.apply(wanted(0))
	r := newRig(t, func(o *Options) { supervisedHere(o); o.Root = stranger.p.opts.Root })
	want := wanted(1)
	want.Machines = slices.Insert(want.Machines, 1, provider.MachineSpec{Name: "cp-1", Role: provider.ControlPlane, Index: 1})
	fresh := func(t testing.TB, change func(*Options)) provider.Provider {
		o := r.p.opts
		change(&o)
		return testkit.Value(New(o))(t)
	}
	providertest.Run(t, providertest.Place{
		Provider: func(t testing.TB) provider.Provider { return fresh(t, func(*Options) {}) },
		Want:     want,
		Refused: func(t testing.TB) (provider.Provider, provider.Wanted) {
			return fresh(t, func(o *Options) { o.CIDR = stranger.p.subnet.String() }), want
		},
		Things: func(testing.TB) []string { return hostThings(t, stranger, r) },
		Off: func(t testing.TB, machine string) {
			testkit.Must(t, testkit.Value(supervisor(r.p.n.machine(machine)))(t).Signal(syscall.SIGKILL))
			groups := testkit.Value(r.p.n.machineCgroups(machine))(t)
			testkit.Must(t, process.KillCgroups(t.Context(), groups))
		},
		Limit: r.p.opts.Timeouts.Boot * 2 / 3, // an apply that waits for a machine that does not boot would be too late
		Login: func(t testing.TB, m provider.Machine) {
			pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m.HostKeys[0]))
			testkit.Must(t, err)
			l := sshtest.Login{User: m.User, Key: r.signer, HostKey: pinned, Timeout: 10 * time.Second}
			out, err := l.Run(net.JoinHostPort(m.Address, strconv.Itoa(m.Port)), "hostname")
			if err != nil || out != m.Name {
				t.Errorf("%s calls itself %q, %v", m.Name, out, err)
			}
		},
	})
	stranger.ssh("gw-1", "true")
}

// hostThings lists everything that clusters have on this host, with the PIDs of machines' processes, so that any change shows.
func hostThings(t testing.TB, rigs ...*rig) []string {
	t.Helper()
	var out []string
	for _, r := range rigs {
		out = append(out, testkit.Value(r.p.left(t.Context()))(t)...)
		for _, m := range testkit.Value(r.p.Observe(t.Context()))(t).Machines {
			out = append(out, strings.Join(append([]string{"machine", m.Name, m.Address, string(m.State)}, m.HostKeys...), " "))
		}
	}
	slices.Sort(out)
	return out
}
