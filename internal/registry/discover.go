package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Discovery is the result of a machine's report of its facts.
type Discovery struct {
	New         bool
	Approval    Approval
	Key         string // fingerprint of the key that signed the body; empty if it was unsigned
	Proven      bool   // that key is the approved one
	Certificate string // for Key; empty unless Key is the approved one
}

// Discover stores the facts that a machine reports. signature is the signature of the whole body, or "".
//
// Anybody on the provisioning network can send such a body. Discover reveals nothing but the certificate of an approved key, and once a key is
// approved, only a body signed by it changes the machine's facts.
func (r *Registry) Discover(ctx context.Context, body []byte, signature string) (*Discovery, error) {
	return r.DiscoverFrom(ctx, body, signature, "")
}

// DiscoverFrom is Discover for a body from an address. It fails with fail.NotReady if the address exceeds its Limits.
func (r *Registry) DiscoverFrom(ctx context.Context, body []byte, signature, from string) (*Discovery, error) {
	d, err := facts.Parse(body)
	if err != nil {
		return nil, err
	}
	key := ""
	if d.Enrolment != nil {
		if _, key, err = d.Enrolment.Key(d.Boot.UUID, body, signature); err != nil {
			return nil, err
		}
	}
	rule, ruled := r.ruleFor(d)
	origin := peer.Key(from)
	if !ruled {
		if err := r.mayClaim(ctx, d.Boot.UUID, key, origin); err != nil {
			return nil, err
		}
	}
	if err := r.markShared(ctx, d); err != nil {
		return nil, err
	}
	out, a := &Discovery{Key: key}, claimOf(d, key, origin, time.Now().UTC().Truncate(time.Microsecond))
	how := metal.How{Make: true, Quick: !ruled, Room: metal.Room{Total: r.bounds.Total, PerOrigin: r.bounds.PerAddress}}
	m, err := r.change(ctx, d.Boot.UUID, how, func(dr *metal.Draft, rec *Record) error {
		out.New = dr.New
		out.Proven = key != "" && key == rec.Key
		if err := r.sight(dr, rec, d, a); err != nil || !ruled || !mayApproveByRule(dr, rec, a) || !r.bounds.ruled.Allow("") {
			return err
		}
		return r.approveByRule(dr, rec, d, a, rule)
	})
	if err != nil {
		return nil, err
	}
	r.bounds.remember(m, a)
	out.Approval = Approval(m.Approval)
	if key != "" && key == m.Record.Key && out.Approval == Approved {
		out.Certificate, out.Proven = m.Record.Certificate, true
	}
	return out, nil
}

// mayApproveByRule reports whether a rule may approve a claim. Rules match facts, which anybody could send. So they approve only pending
// machines, and a new key of an approved machine only if an operator wants it reinstalled.
func mayApproveByRule(dr *metal.Draft, rec *Record, a Asking) bool {
	return Approval(dr.Approval) == Pending || rec.Reinstall && Approval(dr.Approval) == Approved && a.Key != "" && a.Key != rec.Key
}

// approveByRule approves the claim that matches a rule, despite other claims to be the machine.
func (r *Registry) approveByRule(dr *metal.Draft, rec *Record, d *facts.Discovery, a Asking, rule Rule) error {
	name := a.Name()
	if a.Key == "" && rec.Asks == nil && len(rec.Rivals) == 0 {
		name = ""
	}
	if err := r.settle(dr, rec, name, "rule "+rule.String()); err != nil {
		return err
	}
	return r.describe(dr, rec, d)
}

// sight records in a machine's draft that it was seen, and its facts if the claim is the machine's own.
func (r *Registry) sight(dr *metal.Draft, rec *Record, d *facts.Discovery, a Asking) error {
	if dr.New {
		dr.Approval, dr.Waits, dr.Origin, rec.StateAt = string(Pending), metal.Once, a.From, a.Seen
		if first := r.bounds.heard.Seen(dr.UUID+" "+a.Name(), a.Seen); a.Seen.Sub(first) >= againAfter { // others have replaced it since
			dr.Waits = metal.Again
		}
	} else if dr.Waits == metal.Once && a.Seen.Sub(dr.Created) >= againAfter {
		dr.Waits = metal.Again
	}
	own, err := claimed(dr, rec, a)
	if err != nil {
		return err
	}
	if dr.Seen = a.Seen; !own {
		return nil
	}
	return r.describe(dr, rec, d)
}

// describe stores the facts and the journal of a machine.
func (r *Registry) describe(dr *metal.Draft, rec *Record, d *facts.Discovery) error {
	known := *d
	known.Journal, known.Enrolment = nil, nil
	raw, err := json.Marshal(known)
	if err != nil {
		return err
	}
	journal, err := r.bounded(dr, raw, d.Journal)
	if err != nil {
		return err
	}
	dr.Facts, dr.MACs = raw, d.MACs()
	rec.Disks, rec.Chassis = disksInWords(d.Disks), new(chassisOf(d))
	if n := d.BootInterface(); n != nil {
		rec.Address, rec.DomainName = n.CIDRv4, strings.Join(n.FQDN, " ")
	}
	if rec.Boot != d.Boot.RandomID || dr.New {
		happens(dr, rec, Discovers, "boot "+d.Boot.RandomID)
	}
	rec.Boot = d.Boot.RandomID
	dr.Boot = &metal.Boot{ID: d.Boot.RandomID}
	dr.Journals = []metal.Journal{{BootID: d.Boot.RandomID, Kind: DiscoveryJournal, Lines: journal}}
	return nil
}

// disksInWords summarizes disks in one line: "2 × 480.1 GB, 1 × 3.8 TB".
func disksInWords(disks []facts.Disk) string {
	counts := map[int64]int{}
	for _, d := range disks {
		if fixed(d) {
			counts[d.SizeBytes]++
		}
	}
	sizes := make([]int64, 0, len(counts))
	for s := range counts {
		sizes = append(sizes, s)
	}
	slices.Sort(sizes)
	words := make([]string, 0, len(sizes))
	for _, s := range sizes {
		words = append(words, fmt.Sprintf("%d × %s", counts[s], bytesInWords(s)))
	}
	return strings.Join(words, ", ")
}

func bytesInWords(n int64) string {
	v := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB", "TB"} {
		if v < 1000 || unit == "TB" {
			return fmt.Sprintf("%.4g %s", v, unit)
		}
		v /= 1000
	}
	return ""
}
