// Package registry knows the physical machines: what each is, whether it may be used, what it is for, and where it stands in its life from
// the first boot to the reports of a running system.
//
// It decides; internal/store/metal remembers, and internal/registry/routes and the server speak HTTP. It knows nothing of HTTP, of how
// machines boot, and of how clusters are made.
package registry

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Options says how a registry decides. The zero value is usable.
type Options struct {
	Installs       int           // how many machines may be installed at once; 0: 5
	InstallTTL     time.Duration // how long an authorization lasts; 0: 20 minutes
	InstallRetries int           // after so many failures a machine isn't installed again until somebody says so; 0: 3
	Reboots        int           // how many of a group may reboot at once; 0: 1
	RebootTTL      time.Duration // how long a place to reboot lasts; 0: a day
	Limits         Limits        // of machines that wait for approval
	Rules          []Rule        // machines of which are approved by themselves
	Issuer         Issuer        // nil: machines get no certificate
	Power          Power         // nil: nobody switches machines
	Secrets        Secrets       // where passwords of BMCs are kept; nil: nowhere
	Clusters       Clusters      // nil: no group of reboots is a cluster's
	Log            *slog.Logger  // nil: nothing is told
}

// Issuer signs the certificates by which machines are known.
type Issuer interface {
	// IssueMachine returns a client certificate (PEM) for the machine's public key, with its UUID as the common name.
	IssueMachine(uuid string, public any) ([]byte, error)
}

// Clusters finds clusters.
type Clusters interface {
	// ClusterID returns the ID of the cluster of a name; empty if there is none.
	ClusterID(ctx context.Context, name string) (string, error)
}

// Registry knows the machines of a store.
type Registry struct {
	store  metal.Store
	o      Options
	bounds *bounds
}

// New returns the registry of a store.
func New(s metal.Store, o Options) *Registry {
	for _, n := range []struct {
		v     *int
		usual int
	}{{&o.Installs, 5}, {&o.InstallRetries, 3}, {&o.Reboots, 1}} {
		if *n.v <= 0 {
			*n.v = n.usual
		}
	}
	if o.InstallTTL <= 0 {
		o.InstallTTL = 20 * time.Minute
	}
	if o.RebootTTL <= 0 {
		o.RebootTTL = 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Registry{s, o, newBounds(o.Limits)}
}

// Approval says whether a machine may be used.
type Approval string

// The approvals.
const (
	Pending  Approval = "pending"
	Approved Approval = "approved"
	Rejected Approval = "rejected"
)

// Record is what is remembered of a machine beside what can be searched for. It may only grow.
type Record struct {
	StateAt     time.Time `json:"stateAt"`
	Why         string    `json:"why,omitempty"`         // the machine is in its state
	Boot        string    `json:"boot,omitempty"`        // the latest one
	Address     string    `json:"address,omitempty"`     // of the interface that it has booted by, with the prefix length
	DomainName  string    `json:"domainName,omitempty"`  // of that interface
	Disks       string    `json:"disks,omitempty"`       // in one line
	Key         string    `json:"key,omitempty"`         // fingerprint of the approved key
	Sequence    int64     `json:"sequence,omitempty"`    // of the last body that the approved key has signed
	Certificate string    `json:"certificate,omitempty"` // for the approved key, PEM
	Asks        *Asking   `json:"asks,omitempty"`        // the first key that is not approved
	Rivals      []Asking  `json:"rivals,omitempty"`      // further claims to be this machine
	Disputed    time.Time `json:"disputed,omitzero"`     // when an event told of such a claim last
	Chassis     *string   `json:"chassis,omitempty"`     // ID of the switch that it boots by; nil: only its facts say it
	ApprovedBy  string    `json:"approvedBy,omitempty"`
	ApprovedAt  time.Time `json:"approvedAt,omitzero"`
	Maintenance string    `json:"maintenance,omitempty"` // why it is not to be used now
	BMC         *BMC      `json:"bmc,omitempty"`
	Strategy    Strategy  `json:"strategy,omitzero"`
	Wanted      string    `json:"wanted,omitempty"`    // digest of what should be installed
	Failures    int       `json:"failures,omitempty"`  // of installations since the last success
	Reinstall   bool      `json:"reinstall,omitempty"` // somebody wants it installed again
	Installed   time.Time `json:"installed,omitzero"`  // when that succeeded last
	// Had is the seat that it was given back from last: whoever fills that seat again may want another machine, or this one.
	Had *Had `json:"had,omitempty"`
	// What the agent says of an installed system. Strategies of the older system's machines don't need any of it.
	Order    *order.Order `json:"order,omitempty"`    // what is to be installed; Wanted is its digest
	Progress *Progress    `json:"progress,omitempty"` // of the installation that is under way
	HostKeys []string     `json:"hostKeys,omitempty"` // by which SSH knows the machine, as authorized_keys has keys
	Slot     string       `json:"slot,omitempty"`     // that it runs from: "a" or "b"
	Refused  string       `json:"refused,omitempty"`  // digest of what it has tried, and has gone back from
}

// Machine is a machine as the registry knows it.
type Machine struct {
	metal.Machine
	Record Record
	Facts  *facts.Discovery // nil in lists
	look   func() ([]byte, error)
}

// Said reads the facts of a machine that is chosen among; elsewhere it returns Facts.
func (m *Machine) Said() (*facts.Discovery, error) {
	if m.Facts != nil || m.look == nil {
		return m.Facts, nil
	}
	raw, err := m.look()
	if err != nil || len(raw) <= 2 {
		return nil, err
	}
	d := &facts.Discovery{}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the facts of the machine").At(m.UUID)
	}
	return d, nil
}

// Title is what people call the machine.
func (m *Machine) Title() string {
	switch {
	case m.Name != "":
		return m.Name
	case len(m.MACs) > 0:
		return m.MACs[0]
	}
	return m.UUID
}

// UpToDate reports whether the machine says that it has what it should have; unknown where one of these is not known.
func (m *Machine) UpToDate() (is, known bool) {
	if m.Report == nil || m.Record.Wanted == "" {
		return false, false
	}
	return m.Report.Digest == m.Record.Wanted, true
}

// BootsFromDisk reports whether the machine starts what was installed on it; else it is to be looked at, and maybe installed.
func (m *Machine) BootsFromDisk() bool { return !m.Record.Installed.IsZero() && !m.Record.Reinstall }

func open(stored *metal.Machine) (*Machine, error) {
	m := &Machine{Machine: *stored}
	if err := json.Unmarshal(stored.Record, &m.Record); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read what is remembered of the machine").At(stored.UUID)
	}
	if len(stored.Facts) > 2 { // "{}" is a machine that has said nothing
		m.Facts = &facts.Discovery{}
		if err := json.Unmarshal(stored.Facts, m.Facts); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the facts of the machine").At(stored.UUID)
		}
	}
	m.look = stored.Look
	m.Machine.Facts, m.Machine.Record, m.Machine.Look = nil, nil, nil
	return m, nil
}

// change changes what is remembered of a machine.
func (r *Registry) change(ctx context.Context, uuid string, h metal.How, f func(d *metal.Draft, rec *Record) error) (*Machine, error) {
	stored, err := r.store.Change(ctx, uuid, h, func(d *metal.Draft) error {
		var rec Record
		if err := json.Unmarshal(d.Record, &rec); err != nil {
			return fail.Wrap(fail.Internal, err, "read what is remembered of the machine").At(uuid)
		}
		if err := f(d, &rec); err != nil {
			return err
		}
		d.Unusable = unusable(Approval(d.Approval), State(d.State), &rec)
		if d.Waits != metal.Counts && !h.Make && !h.Quick { // an operator's word
			d.Waits = metal.Kept
		}
		data, err := json.Marshal(rec)
		d.Record = data
		return err
	})
	if err != nil {
		return nil, err
	}
	return open(stored)
}

// Resolve returns the UUID of the machine that somebody means: by UUID, MAC address or name.
func (r *Registry) Resolve(ctx context.Context, ref string) (string, error) {
	m, err := r.Machine(ctx, ref)
	if err != nil {
		return "", err
	}
	return m.UUID, nil
}

// Machine returns the machine that somebody means: by UUID, MAC address or name.
func (r *Registry) Machine(ctx context.Context, ref string) (*Machine, error) {
	if uuid, err := facts.ParseUUID(ref); err == nil {
		return r.opened(r.store.Machine(ctx, uuid))
	}
	if mac, err := facts.ParseMAC(ref); err == nil {
		return r.opened(r.store.ByMAC(ctx, mac))
	}
	return r.opened(r.store.ByName(ctx, ref))
}

func (r *Registry) opened(stored *metal.Machine, err error) (*Machine, error) {
	if err != nil {
		return nil, err
	}
	return open(stored)
}

// Selected returns the machine of a selector, without its facts: fail.NotFound if there is none that has all of it.
func (r *Registry) Selected(ctx context.Context, s facts.Selector) (*Machine, error) {
	return r.opened(r.store.Lookup(ctx, s.UUID, s.MAC))
}

// Find returns a page of machines, and how many there are.
func (r *Registry) Find(ctx context.Context, q metal.Query) ([]Machine, int, error) {
	stored, total, err := r.store.Find(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	all := make([]Machine, 0, len(stored))
	for i := range stored {
		m, err := open(&stored[i])
		if err != nil {
			return nil, 0, err
		}
		all = append(all, *m)
	}
	return all, total, nil
}

// Boots returns the boots of a machine, the newest first.
func (r *Registry) Boots(ctx context.Context, uuid string) ([]metal.Boot, error) {
	return r.store.Boots(ctx, uuid)
}

// Journal kinds.
const (
	DiscoveryJournal = "discovery"
	InstallJournal   = "install"
)

// Journal returns a journal of a machine, of one boot or (empty) of the latest that has one.
func (r *Registry) Journal(ctx context.Context, uuid, boot, kind string) (*metal.Journal, error) {
	return r.store.Journal(ctx, uuid, boot, kind)
}

// Events returns what happened to a machine, the newest first.
func (r *Registry) Events(ctx context.Context, uuid string, limit int) ([]metal.Event, error) {
	return r.store.Events(ctx, uuid, limit)
}

// Forget removes a machine, and the password of its BMC. It can be discovered again, as a new one.
func (r *Registry) Forget(ctx context.Context, uuid string) error {
	if m, err := r.Machine(ctx, uuid); err == nil {
		if err := r.inUse(ctx, uuid, "forget it", m.Claim, &m.Record); err != nil {
			return err
		}
	}
	if r.o.Secrets != nil {
		if err := r.o.Secrets.Delete(ctx, bmcSecret(uuid)); err != nil {
			return err
		}
	}
	return r.store.Forget(ctx, uuid)
}
