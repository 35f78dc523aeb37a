// Package metal is the store's part for physical machines: what each said of itself, what was decided about it, its boots, journals and
// reports, and places that only so many may have at once.
//
// It speaks SQL as internal/store does, which opens the database and carries transactions out; the same on SQLite and PostgreSQL. It
// knows nothing of what states, roles and facts mean: internal/registry does.
package metal

import (
	"context"
	"time"
)

// Store remembers machines. It may be used by several goroutines, and the same database by several processes.
type Store interface {
	// Change reads a machine, passes it to f, and writes what f changed, in one transaction: no other process changes the machine meanwhile.
	// fail.NotFound if there is none and h doesn't say to make it; fail.Conflict, naming the other machine, if another machine has
	// the MAC address or name. If f fails, nothing is written. Claim and roles are not written: see Assign.
	Change(ctx context.Context, uuid string, h How, f func(d *Draft) error) (*Machine, error)
	// Machine returns the machine of a UUID, with its facts: fail.NotFound if there is none.
	Machine(ctx context.Context, uuid string) (*Machine, error)
	// ByMAC returns the machine that has this MAC address, with its facts: fail.NotFound if none has.
	ByMAC(ctx context.Context, mac string) (*Machine, error)
	// ByName returns the machine of a name, with its facts: fail.NotFound if none has it.
	ByName(ctx context.Context, name string) (*Machine, error)
	// Lookup returns the machine that has this UUID and this MAC address, one of which may be empty, without facts, labels, roles and
	// addresses but the one that it boots by: one query, for what every machine asks each minute. fail.NotFound if none has both.
	Lookup(ctx context.Context, uuid, mac string) (*Machine, error)
	// Find returns the machines that a query asks for, and how many there are without its limit.
	Find(ctx context.Context, q Query) ([]Machine, int, error)
	// Counts returns how many machines there are by state.
	Counts(ctx context.Context) (map[string]int, error)
	// Assign writes the claim, roles and events of the machines that decide returns. decide gets all machines without facts; Machine.Look reads one
	// machine's facts. Concurrent calls are serialized, so that a place in a pool is never assigned twice.
	Assign(ctx context.Context, decide func(all []Machine) ([]Assigned, error)) error
	// Forget removes a machine and all that is remembered of it, and gives back the places that it holds: fail.NotFound if there is none.
	Forget(ctx context.Context, uuid string) error

	// Expire removes pending machines that were last seen before a time, and returns their number.
	Expire(ctx context.Context, unseen time.Time) (int64, error)
	// Claimants returns the UUIDs of at most ten other pending machines that claim one of this machine's MAC addresses.
	Claimants(ctx context.Context, uuid string) ([]string, error)

	// Report remembers what a machine says of what is installed. fail.Conflict where the machine has reported with this or a greater
	// sequence number already; fail.NotFound if there is no such machine.
	Report(ctx context.Context, r Report) error
	// Boots returns the boots of a machine, the newest first.
	Boots(ctx context.Context, uuid string) ([]Boot, error)
	// Journal returns what was written down of one kind at a boot (empty: the latest that has such a journal): fail.NotFound if nothing was.
	Journal(ctx context.Context, uuid, bootID, kind string) (*Journal, error)
	// Events returns what happened to a machine, the newest first; at most limit.
	Events(ctx context.Context, uuid string, limit int) ([]Event, error)

	// Take gives a holder a place of a group, or, where it has one, keeps it for longer. Where all are taken nothing is written, and
	// granted is false. It never gives more than the bound. who lists the holders of places.
	Take(ctx context.Context, want Want) (granted bool, who []Slot, err error)
	// Give gives a place back. One that isn't held is no error; held says whether it was.
	Give(ctx context.Context, group, holder string) (held bool, err error)
	// Slots returns the places that are held now, by group and holder; of one group, or (empty) of all.
	Slots(ctx context.Context, group string) ([]Slot, error)

	// AddLockToken stores a token of a group: fail.Refused if there are too many.
	AddLockToken(ctx context.Context, t LockToken) error
	// LockToken returns a token by its ID: fail.NotFound if it does not exist.
	LockToken(ctx context.Context, id string) (*LockToken, error)
	// LockTokens returns all tokens of groups, by group.
	LockTokens(ctx context.Context) ([]LockToken, error)
	// DropLockToken deletes a token: fail.NotFound if it does not exist.
	DropLockToken(ctx context.Context, id string) error
}

// How says how a machine is changed.
type How struct {
	Make bool // remember it if it is not known
	// Quick has the commit outlive the process, but perhaps not a power cut: for what machines say again anyway.
	Quick bool
	Room  Room // limits for a new pending machine
}

// Machine is what is remembered of one machine.
type Machine struct {
	UUID     string
	Name     string // unique, or empty
	State    string
	Approval string
	Claim    Claim
	Roles    []string // sorted
	MACs     []string // the one that it boots by first
	Labels   map[string]string
	Waits    Wait   // pending approval
	Origin   string // address of a pending machine's first report; empty: unknown
	Unusable string // why a machine of no cluster can't be used, in one word; empty: it can
	Record   []byte // JSON: what is not searched for
	Facts    []byte // JSON; nil where a query didn't ask for them
	Created  time.Time
	Changed  time.Time
	Seen     time.Time // when it was heard of last, reports included
	Report   *Report   // the last one; nil: none yet
	// Look reads the facts during Assign; nil otherwise.
	Look func() ([]byte, error)
}

// Claim says which cluster's pool has a machine. The zero value is a free machine's.
type Claim struct {
	Cluster string `json:"cluster"`
	Pool    string `json:"pool"`
	Seat    int    `json:"seat"` // 1, 2, 3…: unique in the pool
}

// Draft is a machine while it is changed.
type Draft struct {
	Machine
	New      bool
	Boot     *Boot     // to be remembered; one that is known stays as it is
	Journals []Journal // to be remembered, in the place of those of the same boot and kind
	Events   []Event   // to be added; they need no time
	// Rivals are MAC addresses that other keys claim for this machine's UUID, which lookups find too; nil keeps the stored ones.
	Rivals []string
}

// Note adds an event.
func (d *Draft) Note(what, detail string) {
	d.Events = append(d.Events, Event{What: what, Detail: detail})
}

// Boot is one start of a machine.
type Boot struct {
	ID string    `json:"boot_id"`
	At time.Time `json:"at"` // when it was heard of first
}

// Journal is what was written down of one kind at one boot.
type Journal struct {
	BootID string    `json:"boot_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
	Lines  []string  `json:"lines"`
}

// Event is something that happened to a machine.
type Event struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Detail string    `json:"detail"`
}

// Report is what a machine says of what is installed.
type Report struct {
	UUID     string    `json:"uuid"`
	BootID   string    `json:"boot_id"`
	Digest   string    `json:"digest"`
	Sequence int64     `json:"sequence"` // grows with each report of a machine
	At       time.Time `json:"at"`       // when it arrived
}

// Query says which machines are asked for; an empty field asks for nothing.
type Query struct {
	State, Approval, Cluster, Pool, Role string
	Labels                               map[string]string
	Free                                 bool   // no claim, and no role
	Unusable                             string // no claim, no role, and this word for why it can't be used; AnyWord: any
	Text                                 string // a part of the UUID, the name or a MAC address
	Facts                                bool   // with their facts
	Order                                string // "uuid" (also where empty), "name", "state" or "seen": the last one newest first; "-name" is the other way
	Limit, Offset                        int    // of the list; a limit of 0 is none
}

// AnyWord stands for every word but the empty one.
const AnyWord = "any"

// Assigned is what Assign writes.
type Assigned struct {
	UUID  string
	Claim Claim
	Roles []string
	Event Event
}

// Want asks for a place of a group.
type Want struct {
	Group, Holder string
	Detail        string        // who the holder is, for people
	Cluster       string        // ID of the cluster whose lease and places exclude each other; empty: of none
	Heeds         string        // ID of a cluster whose lease refuses it, and does not wait for it; empty: of none
	Bound         int           // so many places the group has
	TTL           time.Duration // how long it lasts; 0: until it is given back
}

// Slot is a place that is held.
type Slot struct {
	Group    string    `json:"group"`
	Holder   string    `json:"holder"`
	Detail   string    `json:"detail"`
	Acquired time.Time `json:"acquired"`
	Expires  time.Time `json:"expires,omitzero"` // zero: never
}
