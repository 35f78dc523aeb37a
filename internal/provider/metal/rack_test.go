package metal

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// rack is machines in memory, known to a real registry: they do at once what machines do when they are switched on, and are installed as the
// registry lets them.
type rack struct {
	testing.TB
	reg *registry.Registry
	st  store.Store

	mu     sync.Mutex
	units  map[string]*unit // by UUID
	fails  map[string]int   // by UUID: so many installations go wrong
	bad    string           // ID of a system that does not come up
	newest string           // letter of which the newest system's ID is made
	mute   bool             // no switch says anything by LLDP
	deaf   bool             // orders are taken, and nothing comes of it
}

// unit is one machine.
type unit struct {
	n         int
	on        bool
	installed string // digest of what is on its disk; empty: nothing
	boots     int
	renewed   int // how often it took another system
}

const rackKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"

func uuidOf(n int) string    { return fmt.Sprintf("5b7e1f3a-9c42-4d6b-8e21-%012d", n) }
func addressOf(n int) string { return fmt.Sprintf("10.0.0.%d", n) }

// newRack has n machines with BMCs, approved, in three chassis in turn.
func newRack(t testing.TB, n int) *rack {
	t.Helper()
	k := &rack{TB: t, units: map[string]*unit{}, fails: map[string]int{}}
	k.st = testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, k.st.Close()) })
	k.reg = registry.New(k.st.Metal(), registry.Options{Power: k, Secrets: k.st.ServerSecrets(), InstallRetries: 2})
	for i := 1; i <= n; i++ {
		k.add(i)
		testkit.Value(k.reg.Approve(t.Context(), uuidOf(i), "", "ann"))(t)
		testkit.Value(k.reg.SetBMC(t.Context(), uuidOf(i), registry.BMC{Address: uuidOf(i), User: "admin"}, []byte("secret")))(t)
		testkit.Value(k.reg.Rename(t.Context(), uuidOf(i), fmt.Sprintf("rack-%d", i)))(t)
	}
	return k
}

// add has a machine be discovered, and go off.
func (k *rack) add(n int) {
	k.units[uuidOf(n)] = &unit{n: n}
	testkit.Must(k, k.discover(k.units[uuidOf(n)]))
}

func (k *rack) discover(u *unit) error {
	mac := fmt.Sprintf("52:54:00:00:00:%02x", u.n)
	u.boots++
	d := facts.Discovery{
		Boot:       facts.BootInfo{UUID: uuidOf(u.n), MAC: mac, RandomID: fmt.Sprintf("boot-%d", u.boots)},
		Interfaces: []facts.Interface{{Name: "eth0", MAC: mac, IPv4: addressOf(u.n), CIDRv4: addressOf(u.n) + "/16"}},
		Disks:      []facts.Disk{{Path: "/dev/sda", SizeBytes: 480 << 30, Serial: fmt.Sprint("DISK", u.n)}},
		LLDP:       facts.LLDP{Data: facts.LLDPData{Interfaces: []facts.Neighbour{{Name: "eth0", Chassis: facts.Chassis{ID: fmt.Sprint("switch-", u.n%3)}}}}},
		System:     &facts.System{Manufacturer: "Dell Inc.", CPUs: 8, MemoryBytes: 31 << 30},
	}
	if k.mute {
		d.LLDP = facts.LLDP{}
	}
	_, err := k.reg.Discover(context.Background(), testkit.Value(json.Marshal(d))(k), "")
	return err
}

// Power implements registry.Power.
func (k *rack) Power(ctx context.Context, a bmc.Access, action, boot string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.units[a.Address]
	if ctx.Err() != nil {
		return u.on, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "switch")
	}
	switch action {
	case "on", "cycle":
		if u.on && action == "on" {
			return true, nil
		}
		u.on = true
		return true, k.boot(u, boot == bmc.FromNetwork)
	case "off", "shutdown":
		u.on = false
	case "status":
		if u.on && u.installed == "" { // it waits, and asks now and then
			return true, k.asks(u)
		}
	}
	return u.on, nil
}

// boot has a machine do what it does: from the network it is discovered, and installed if it may be; then its system reports.
func (k *rack) boot(u *unit, network bool) error {
	if network {
		if m, err := k.reg.Machine(context.Background(), uuidOf(u.n)); err != nil || !m.BootsFromDisk() {
			u.installed = "" // it is to be installed anew
		}
		if err := k.discover(u); err != nil {
			return err
		}
	}
	return k.asks(u)
}

// asks has a machine ask to be installed, and report if it is.
func (k *rack) asks(u *unit) error {
	ctx := context.Background()
	if u.installed == "" {
		for k.installs(ctx, u) {
			continue
		}
	}
	m, err := k.reg.Machine(ctx, uuidOf(u.n))
	if err != nil || u.installed == "" || k.deaf {
		return err
	}
	if err := k.reg.Tell(ctx, m, registry.Told{HostKeys: []string{rackKey}, Slot: "a"}); err != nil {
		return err
	}
	_, err = k.reg.Report(ctx, m, m.Record.Boot, u.installed, 0)
	return err
}

// installs tries once, and reports whether it is to be tried again.
func (k *rack) installs(ctx context.Context, u *unit) (again bool) {
	m := testkit.Value(k.reg.Machine(ctx, uuidOf(u.n)))(k)
	a := testkit.Value(k.reg.Authorize(ctx, m))(k)
	if !a.Granted || m.Record.Order == nil || k.deaf {
		return false
	}
	if k.fails[m.UUID] > 0 {
		k.fails[m.UUID]--
		testkit.Must(k, k.reg.Finish(ctx, m, false, []string{"the disk is broken"}))
		return true
	}
	u.installed = m.Record.Order.Digest()
	testkit.Must(k, k.reg.Finish(ctx, m, true, []string{"written"}))
	return false
}

// keeps has a machine do what its agent does each minute: it takes another order by its strategy, and goes back from what does not come up.
func (k *rack) keeps(u *unit) error {
	ctx := context.Background()
	m, err := k.reg.Machine(ctx, uuidOf(u.n))
	if err != nil || m.Record.Order == nil || k.deaf {
		return err
	}
	if s := m.Record.Strategy.Kind; m.Record.Wanted != u.installed && m.Record.Wanted != m.Record.Refused && s != "none" && s != "live" {
		if m.Record.Order.System.ID == k.bad {
			return k.reg.Tell(ctx, m, registry.Told{HostKeys: []string{rackKey}, Refused: m.Record.Wanted})
		}
		u.installed, u.on = m.Record.Wanted, s != "poweroff"
		u.renewed++
	}
	if !u.on {
		return nil
	}
	_, err = k.reg.Report(ctx, m, m.Record.Boot, u.installed, 0)
	return err
}

// Run implements hosts.Runner: who is on and installed lets us in.
func (k *rack) Run(ctx context.Context, h remote.Host, _ io.Reader, argv ...string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect").At(h.Name)
	}
	for _, u := range k.units {
		if addressOf(u.n) != h.Address || !u.on || u.installed == "" {
			continue
		}
		if !slices.Equal(h.HostKeys, []string{rackKey}) {
			return nil, fail.New(fail.Unauthorized, "the host key is another one").At(h.Name)
		}
		if slices.Equal(argv, []string{"systemctl", "poweroff"}) {
			u.on = false
			return nil, nil
		}
		return nil, k.keeps(u)
	}
	return nil, fail.New(fail.Unreachable, "connect: no route to host").At(h.Name)
}

// listing returns all machines, of every cluster.
func (k *rack) listing() (all []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, _, err := k.reg.Find(context.Background(), metal.Query{})
	testkit.Must(k, err)
	for _, m := range found {
		all = append(all, fmt.Sprintf("%s %+v %v order %t on %t", m.Title(), m.Claim, m.Roles, m.Record.Order != nil, k.units[m.UUID].on))
	}
	return all
}

// unitOf is the machine that has a name in the cluster.
func (k *rack) unitOf(p *Provider, name string) *unit {
	m := testkit.Value(p.holder(context.Background(), name))(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.units[m.UUID]
}

// system is the one that there is: k.newest, or one that is as good as any.
func (k *rack) system(context.Context) (order.System, error) {
	letter := "a"
	if k.newest != "" {
		letter = k.newest
	}
	sum := strings.Repeat(letter, 64)
	b := order.Blob{Path: "/assets/systems/x/root.zst", SHA256: sum, Size: 10, RawSHA256: sum, RawSize: 100}
	return order.System{ID: "sha256:" + sum, Kubernetes: "v1.37.2", Root: b, Head: b}, nil
}

func document(t testing.TB, spec string) *v1alpha1.Cluster {
	t.Helper()
	text := `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
` + spec
	return testkit.Value(validation.Parse("test", []byte(text)))(t)
}

// provider is a new one on the rack.
func (k *rack) provider(doc *v1alpha1.Cluster) *Provider {
	return New(Options{Document: doc, Registry: k.reg, Run: k, SSHKeys: []string{"ssh-ed25519 AAAA ann"}, System: k.system, Patience: time.Millisecond, Poll: time.Millisecond})
}

func wanted(doc *v1alpha1.Cluster) provider.Wanted {
	want := provider.Wanted{VIP: doc.GatewayCount() > 0}
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	return want
}
