// Package registry manages the physical machines: their facts, their approval, their use, and their state from the first boot to the reports of a
// running system.
//
// It makes the decisions; internal/store/metal stores them, and internal/server/routes and the server speak HTTP. The package depends neither on
// HTTP, nor on how machines boot or clusters are made.
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

// Options configure a registry. The zero value is usable.
type Options struct {
	Installs       int           // maximum number of installations at once; 0: 5
	InstallTTL     time.Duration // how long an authorization lasts; 0: 20 minutes
	InstallRetries int           // after this many failures a machine isn't installed again until an operator orders it; 0: 3
	Reboots        int           // maximum number of reboots at once in a group; 0: 1
	RebootTTL      time.Duration // how long a place to reboot lasts; 0: a day
	Limits         Limits        // of machines that wait for approval
	Rules          []Rule        // for automatic approval
	Issuer         Issuer        // nil: machines get no certificate
	Power          Power         // nil: power can't be switched
	Secrets        Secrets       // passwords of BMCs; nil: none are stored
	Clusters       Clusters      // nil: no reboot group belongs to a cluster
	Log            *slog.Logger  // nil: no log
}

// Issuer signs the certificates of machines.
type Issuer interface {
	// IssueMachine returns a client certificate (PEM) for the machine's public key, with its UUID as the common name.
	IssueMachine(uuid string, public any) ([]byte, error)
}

// Clusters finds clusters.
type Clusters interface {
	// ClusterID returns the ID of the cluster of this name, or "".
	ClusterID(ctx context.Context, name string) (string, error)
}

// Registry manages the machines of a store.
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

// Record is the stored state of a machine, except the searchable fields. Fields may only be added.
type Record struct {
	StateAt     time.Time `json:"stateAt"`
	Why         string    `json:"why,omitempty"`         // why the machine is in its state
	Boot        string    `json:"boot,omitempty"`        // ID of the latest boot
	Address     string    `json:"address,omitempty"`     // of the boot interface, with the prefix length
	DomainName  string    `json:"domainName,omitempty"`  // of the boot interface
	Disks       string    `json:"disks,omitempty"`       // in one line
	Key         string    `json:"key,omitempty"`         // fingerprint of the approved key
	Sequence    int64     `json:"sequence,omitempty"`    // of the last body signed with the approved key
	Certificate string    `json:"certificate,omitempty"` // for the approved key, PEM
	Asks        *Asking   `json:"asks,omitempty"`        // the first unapproved key
	Rivals      []Asking  `json:"rivals,omitempty"`      // further claims to be this machine
	Disputed    time.Time `json:"disputed,omitzero"`     // last event about such a claim
	Chassis     *string   `json:"chassis,omitempty"`     // ID of the switch on the boot interface; nil: see the facts
	ApprovedBy  string    `json:"approvedBy,omitempty"`
	ApprovedAt  time.Time `json:"approvedAt,omitzero"`
	Maintenance string    `json:"maintenance,omitempty"` // why it must not be used now
	BMC         *BMC      `json:"bmc,omitempty"`
	Strategy    Strategy  `json:"strategy,omitzero"`
	Wanted      string    `json:"wanted,omitempty"`    // digest of the configuration that should be installed
	Failures    int       `json:"failures,omitempty"`  // of installations since the last success
	Reinstall   bool      `json:"reinstall,omitempty"` // an operator wants it reinstalled
	Installed   time.Time `json:"installed,omitzero"`  // last successful installation
	// Had is the seat from which it was last returned: the planner that fills that seat again may want another machine, or this one.
	Had *Had `json:"had,omitempty"`
	// The agent's report about an installed system. Strategies for the older system's machines don't need it.
	Order    *order.Order `json:"order,omitempty"`    // what to install; Wanted is its digest
	Progress *Progress    `json:"progress,omitempty"` // of the running installation
	HostKeys []string     `json:"hostKeys,omitempty"` // SSH host keys, in the form of authorized_keys
	Slot     string       `json:"slot,omitempty"`     // slot of the running system: "a" or "b"
	Refused  string       `json:"refused,omitempty"`  // digest of a system that it tried and fell back from
}

// Machine is a machine of the registry.
type Machine struct {
	metal.Machine
	Record Record
	Facts  *facts.Discovery // nil in lists
	look   func() ([]byte, error)
}

// Said returns the facts. It reads them for a machine of a list; otherwise it returns Facts.
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

// Title is the machine's name for people.
func (m *Machine) Title() string {
	switch {
	case m.Name != "":
		return m.Name
	case len(m.MACs) > 0:
		return m.MACs[0]
	}
	return m.UUID
}

// UpToDate reports whether the machine reports the digest that it should have; known is false if one of the two is missing.
func (m *Machine) UpToDate() (is, known bool) {
	if m.Report == nil || m.Record.Wanted == "" {
		return false, false
	}
	return m.Report.Digest == m.Record.Wanted, true
}

// BootsFromDisk reports whether the machine boots its installed system; otherwise it boots the discovery image, and may be installed.
func (m *Machine) BootsFromDisk() bool { return !m.Record.Installed.IsZero() && !m.Record.Reinstall }

func open(stored *metal.Machine) (*Machine, error) {
	m := &Machine{Machine: *stored}
	if err := json.Unmarshal(stored.Record, &m.Record); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the machine's record").At(stored.UUID)
	}
	if len(stored.Facts) > 2 { // "{}": the machine has reported no facts
		m.Facts = &facts.Discovery{}
		if err := json.Unmarshal(stored.Facts, m.Facts); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the facts of the machine").At(stored.UUID)
		}
	}
	m.look = stored.Look
	m.Machine.Facts, m.Machine.Record, m.Machine.Look = nil, nil, nil
	return m, nil
}

// change changes a machine's stored state.
func (r *Registry) change(ctx context.Context, uuid string, h metal.How, f func(d *metal.Draft, rec *Record) error) (*Machine, error) {
	stored, err := r.store.Change(ctx, uuid, h, func(d *metal.Draft) error {
		var rec Record
		if err := json.Unmarshal(d.Record, &rec); err != nil {
			return fail.Wrap(fail.Internal, err, "read the machine's record").At(uuid)
		}
		if err := f(d, &rec); err != nil {
			return err
		}
		d.Unusable = unusable(Approval(d.Approval), State(d.State), &rec)
		if d.Waits != metal.Counts && !h.Make && !h.Quick { // an operator's decision
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

// Resolve returns the UUID of a machine, given its UUID, MAC address or name.
func (r *Registry) Resolve(ctx context.Context, ref string) (string, error) {
	m, err := r.Machine(ctx, ref)
	if err != nil {
		return "", err
	}
	return m.UUID, nil
}

// Machine returns a machine by its UUID, MAC address or name.
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

// Selected returns the machine that matches all of a selector, without its facts, or fail.NotFound.
func (r *Registry) Selected(ctx context.Context, s facts.Selector) (*Machine, error) {
	return r.opened(r.store.Lookup(ctx, s.UUID, s.MAC))
}

// Find returns a page of machines, and the number of all matching ones.
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

// Journal returns a journal of a machine, of one boot or, if boot is empty, of the latest boot that has one.
func (r *Registry) Journal(ctx context.Context, uuid, boot, kind string) (*metal.Journal, error) {
	return r.store.Journal(ctx, uuid, boot, kind)
}

// Events returns a machine's events, the newest first.
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
