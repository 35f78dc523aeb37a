package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Limits limit the machines that wait for approval. Anybody on the provisioning network can claim to be one. A zero field selects the default.
type Limits struct {
	Total      int           // machines that wait; a new one replaces the one that was silent for longest. Default: 2,000
	PerAddress int           // of these, machines first heard from one address. Default: 64
	Size       int           // bytes of the facts of each. Default: 64 KiB
	Rate       float64       // discoveries a second from one address, after Burst at once. Default: 1
	Burst      int           // Default: 100
	Age        time.Duration // how long a silent machine waits. Default: a day
}

// Limits without a flag.
const (
	mostAddresses  = 20_000 // with a recorded rate
	mostHeard      = 50_000 // claims whose first time is remembered, which protects waiting machines against a flood of new claims
	mostRivals     = 4      // claims to one UUID in addition to the first
	mostRecent     = 10_000 // claims that can be approved although others have pushed them out of the list
	recentRequest  = 4 << 10
	recently       = 10 * time.Minute
	rivalMACs      = 8   // of each
	pendingLines   = 200 // of a waiting machine's journal
	pendingJournal = 16 << 10
	againAfter     = time.Second // a machine heard later than this after the first time counts as heard again
	ruledADay      = 20_000      // approvals by rules
)

func (l Limits) usual() Limits {
	for _, n := range []struct {
		v     *int
		usual int
	}{{&l.Total, 2000}, {&l.PerAddress, 64}, {&l.Size, 64 << 10}, {&l.Burst, 100}} {
		if *n.v <= 0 {
			*n.v = n.usual
		}
	}
	if l.Rate <= 0 {
		l.Rate = 1
	}
	if l.Age <= 0 {
		l.Age = 24 * time.Hour
	}
	return l
}

// bounds are the limits with their counters.
type bounds struct {
	Limits
	rates *peer.Rates          // by address
	ruled *peer.Rates          // of all approvals by rules
	heard *peer.First          // claims by UUID and name
	last  *peer.Recent[Asking] // the last one by UUID and name
}

func newBounds(l Limits) *bounds {
	l = l.usual()
	return &bounds{l, peer.NewRates(l.Rate, l.Burst, mostAddresses), peer.NewRates(float64(ruledADay)/(24*60*60), ruledADay, 1), peer.NewFirst(mostHeard), peer.NewRecent[Asking](mostRecent)}
}

// mayClaim fails with fail.NotReady if an address sends too many discoveries. A machine that signs with its approved key has no limit.
func (r *Registry) mayClaim(ctx context.Context, uuid, key, origin string) error {
	if origin == "" || r.bounds.rates.Allow(origin) {
		return nil
	}
	if m, err := r.Selected(ctx, facts.Selector{UUID: uuid}); err == nil && key != "" && m.Record.Key == key {
		return nil
	}
	return fail.New(fail.NotReady, "too many discoveries come from %s", origin).
		Do("ask again in %s; --discovery-rate says how many a second one address may send", r.bounds.rates.Until(origin).Round(time.Second)+time.Second)
}

// Expire removes machines that wait for approval and were silent for Limits.Age, at intervals until ctx ends.
func (r *Registry) Expire(ctx context.Context) error {
	for pause := time.NewTimer(0); ; pause.Reset(min(r.bounds.Age/4, 10*time.Minute)) {
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		switch n, err := r.store.Expire(ctx, time.Now().Add(-r.bounds.Age)); {
		case err != nil && ctx.Err() == nil:
			r.o.Log.Error("machines that wait for approval since long could not be removed", "error", err.Error())
		case n > 0:
			r.o.Log.Info("machines were not approved in time, and were removed", "machines", n, "after", r.bounds.Age.String())
		}
	}
}

// Asking is a claim to be a machine that waits for approval: with a key, or only by the MAC address.
type Asking struct {
	Key      string    `json:"key,omitempty"` // fingerprint; empty: the claim has none
	Request  string    `json:"request,omitempty"`
	Sequence int64     `json:"sequence,omitempty"`
	Since    time.Time `json:"since"`
	Seen     time.Time `json:"seen,omitzero"`
	Again    bool      `json:"again,omitempty"` // the claim was made more than once
	From     string    `json:"from,omitempty"`  // address that it came from; for IPv6 the /64
	MACs     []string  `json:"macs,omitempty"`  // the first ones
}

// Name is the name of a claim for its approval: the fingerprint of its key, or mac:ADDRESS if it has none.
func (a *Asking) Name() string {
	if a.Key == "" && len(a.MACs) > 0 {
		return "mac:" + a.MACs[0]
	}
	return a.Key
}

func claimOf(d *facts.Discovery, key, origin string, now time.Time) Asking {
	a := Asking{Key: key, Since: now, Seen: now, From: origin, MACs: d.MACs()}
	a.MACs = a.MACs[:min(len(a.MACs), rivalMACs)]
	if key != "" {
		a.Request, a.Sequence = d.Enrolment.Request, d.Enrolment.Sequence
	}
	return a
}

// Claims returns all claims of the machine that wait for approval. If there are several, an approval must name one.
func (m *Machine) Claims() (all []Asking) {
	if m.Record.Asks != nil {
		all = append(all, *m.Record.Asks)
	} else if Approval(m.Approval) != Approved && len(m.MACs) > 0 {
		all = append(all, Asking{MACs: m.MACs, Since: m.Created, Seen: m.Seen, From: m.Origin})
	}
	return append(all, m.Record.Rivals...)
}

// Disputed reports whether there are several claims to be the machine.
func (m *Machine) Disputed() bool { return len(m.Claims()) > 1 }

// claimed records a claim to be the machine, and reports whether it is the claim whose facts are shown. A claim that waits for approval never
// blocks another one: both are shown until an operator approves one by its name.
func claimed(dr *metal.Draft, rec *Record, a Asking) (own bool, err error) {
	shares := len(dr.MACs) == 0 || slices.ContainsFunc(a.MACs, func(mac string) bool { return slices.Contains(dr.MACs, mac) })
	approved := Approval(dr.Approval) == Approved
	switch {
	case a.Key != "" && a.Key == rec.Key:
		return true, advance(dr.UUID, &rec.Sequence, a.Sequence)
	case rec.Key != "" && a.Key == "": // without a key, anybody could claim it
		return false, nil
	case rec.Key == "" && approved && !shares:
		return false, fail.New(fail.Conflict, "another machine, with the MAC address %s, has this UUID", dr.MACs[0]).At(dr.UUID).
			Do("give this one a UUID of its own in its firmware or BMC; where all its network cards were changed: naupegos machine forget %s", dr.UUID)
	case rec.Key == "" && approved && a.Key == "", rec.Key == "" && rec.Asks == nil && shares && a.Key == "":
		return true, nil
	case rec.Key == "" && rec.Asks == nil && shares:
		rec.Asks = &a
		if !dr.New {
			dr.Note("asks for approval of a key", a.Key)
		}
		return true, nil
	case rec.Asks != nil && rec.Asks.Key == a.Key && a.Key != "":
		rec.Asks.Seen, rec.Asks.Again = a.Seen, true
		return rec.Key == "", advance(dr.UUID, &rec.Asks.Sequence, a.Sequence)
	case rec.Key != "" && rec.Asks == nil:
		rec.Asks = &a
		rivalNoted(dr, rec, "asks for approval of another key", a)
		return false, nil
	}
	return rec.Key == "" && approved, rival(dr, rec, a)
}

// advance refuses a body with a sequence number that is not greater than the last.
func advance(uuid string, last *int64, sequence int64) error {
	if sequence <= *last {
		return fail.New(fail.Conflict, "a discovery with this sequence number, or a greater one, was sent already").At(uuid).
			Do("each needs a greater one than the one before: this was sent twice, or by another sender")
	}
	*last = sequence
	return nil
}

// rival records another claim to a UUID. If there are too many, it drops one: see surplus.
func rival(dr *metal.Draft, rec *Record, a Asking) error {
	for i := range rec.Rivals {
		known := &rec.Rivals[i]
		if known.Name() != a.Name() {
			continue
		}
		known.Seen, known.Again = a.Seen, true
		if a.Key == "" {
			return nil
		}
		return advance(dr.UUID, &known.Sequence, a.Sequence)
	}
	if len(rec.Rivals) >= mostRivals {
		i := surplus(rec, a)
		rec.Rivals = slices.Delete(rec.Rivals, i, i+1)
	}
	rec.Rivals = append(rec.Rivals, a)
	dr.Rivals = []string{}
	for _, r := range rec.Rivals {
		for _, mac := range r.MACs {
			if !slices.Contains(dr.Rivals, mac) && !slices.Contains(dr.MACs, mac) {
				dr.Rivals = append(dr.Rivals, mac)
			}
		}
	}
	rivalNoted(dr, rec, "conflict: another claims to be this machine", a)
	return nil
}

// surplus returns the rival that makes room for a new claim: one of the address with the most claims, so that one address can't push out
// the claims of others. Among these it prefers the oldest claim that was made only once, or else the oldest.
func surplus(rec *Record, a Asking) (drop int) {
	claims := map[string]int{a.From: 1}
	if rec.Asks != nil {
		claims[rec.Asks.From]++
	}
	for _, r := range rec.Rivals {
		claims[r.From]++
	}
	for i, r := range rec.Rivals {
		old := rec.Rivals[drop]
		switch n := cmp.Compare(claims[r.From], claims[old.From]); {
		case n > 0, n == 0 && !r.Again && old.Again, n == 0 && r.Again == old.Again && r.Seen.Before(old.Seen):
			drop = i
		}
	}
	return drop
}

// remember keeps a claim for recent if it waits for approval: a claim that was refused or ignored can't be approved.
func (b *bounds) remember(m *Machine, a Asking) {
	waits := slices.ContainsFunc(m.Claims(), func(listed Asking) bool { return listed.Name() == a.Name() })
	if waits && len(a.Request) <= recentRequest {
		b.last.Set(m.UUID+" "+a.Name(), a)
	}
}

// recent returns a claim of the last minutes that is no longer listed, because too many others claim to be the machine.
func (b *bounds) recent(uuid, name string) (Asking, bool) {
	a, known := b.last.Get(uuid + " " + name)
	return a, known && time.Since(a.Seen) < recently
}

// rivalNoted adds an event, at most one a minute, so that strangers can't push a machine's history out.
func rivalNoted(dr *metal.Draft, rec *Record, what string, a Asking) {
	if a.Seen.Sub(rec.Disputed) < time.Minute {
		return
	}
	rec.Disputed = a.Seen
	where := ""
	if a.From != "" {
		where = " from " + a.From
	}
	dr.Note(what, a.Name()+where+"; until it is approved, what it reports is ignored")
}

// bounded refuses facts of a waiting machine that are too large, and returns the end of its journal within the limits.
func (r *Registry) bounded(dr *metal.Draft, raw []byte, journal []string) ([]string, error) {
	if dr.Waits == metal.Counts {
		return journal, nil
	}
	if len(raw) > r.bounds.Size {
		return nil, fail.New(fail.Invalid, "the machine's facts have %d bytes, and %d are allowed before it is approved", len(raw), r.bounds.Size).At(dr.UUID).
			Do("where machines have that many parts, raise --pending-size")
	}
	journal = journal[max(0, len(journal)-pendingLines):]
	n := 0
	for i := len(journal) - 1; i >= 0; i-- {
		if n += len(journal[i]); n > pendingJournal {
			return journal[i+1:], nil
		}
	}
	return journal, nil
}

// settle approves a claim by its name, and drops all others. An empty name approves a machine without a known key.
func (r *Registry) settle(dr *metal.Draft, rec *Record, name, by string) error {
	m := Machine{Machine: dr.Machine, Record: *rec}
	all := m.Claims()
	i := slices.IndexFunc(all, func(a Asking) bool { return a.Name() == name })
	// An approval or a rejection ends the claims that were made before it, so that of two approvals at once only the first holds.
	if a, known := r.bounds.recent(dr.UUID, name); known && i < 0 && name != rec.Key && a.Seen.After(rec.ApprovedAt) && Approval(dr.Approval) != Rejected {
		rec.Rivals, all, i = append(rec.Rivals, a), append(all, a), len(all)
	}
	switch {
	case name == "" && (rec.Key != "" || rec.Asks != nil || len(all) > 1):
		return fail.New(fail.Invalid, "the machine has a key: say which one is approved").At(dr.UUID).Do("compare it with the one on the machine's console, then:\n  %s", howToApprove(dr.UUID, rec.Key, all))
	case name != "" && i < 0 && name != rec.Key:
		return fail.New(fail.Conflict, "the machine does not ask with the key %s", name).At(dr.UUID).Do("see which one it has now: naupegos machine show %s", dr.UUID)
	}
	for k, a := range all {
		if k != i && (name != "" || len(all) > 1) {
			dr.Note("claim dropped", a.Name()+", because another one was approved")
		}
	}
	if i >= 0 {
		chosen := all[i]
		if k := i - (len(all) - len(rec.Rivals)); k >= 0 { // the facts are from another claim
			if dr.Waits != metal.Counts || !slices.ContainsFunc(chosen.MACs, func(mac string) bool { return slices.Contains(dr.MACs, mac) }) {
				dr.Facts, dr.MACs, rec.Disks, rec.Address, rec.DomainName, rec.Chassis = []byte("{}"), chosen.MACs, "", "", "", nil
			}
		}
		if rec.Asks = &chosen; chosen.Key != "" {
			if err := r.accept(dr.UUID, rec); err != nil {
				return err
			}
		}
	}
	rec.Asks, rec.Rivals, dr.Rivals, dr.Waits, dr.Origin = nil, nil, []string{}, metal.Counts, ""
	dr.Approval, rec.ApprovedBy, rec.ApprovedAt = string(Approved), by, time.Now().UTC().Truncate(time.Microsecond)
	dr.Note("approved", "by "+by)
	r.o.Log.Info("a machine was approved", "uuid", dr.UUID, "by", by, "key", rec.Key)
	return nil
}

// howToApprove lists the commands that approve each key.
func howToApprove(uuid, own string, all []Asking) string {
	var lines []string
	for _, a := range all {
		lines = append(lines, fmt.Sprintf("naupegos machine approve %s --key %s", uuid, a.Name()))
	}
	if len(lines) == 0 {
		lines = append(lines, fmt.Sprintf("naupegos machine approve %s --key %s", uuid, own))
	}
	return strings.Join(lines, "\n  ")
}

// Claimants returns the UUIDs of other machines that wait for approval and claim a MAC address that this one claims.
func (r *Registry) Claimants(ctx context.Context, uuid string) ([]string, error) {
	return r.store.Claimants(ctx, uuid)
}
