package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Discovery is what came of a machine that has said what it is.
type Discovery struct {
	New         bool
	Approval    Approval
	Key         string // fingerprint of the key that the body was signed by; empty where it was by none
	Proven      bool   // that key is the approved one
	Certificate string // for it; empty unless it is the approved one
}

// Discover remembers what a machine says of itself. signature is that of the whole body; empty where there is none.
//
// Anybody on the provisioning network can send such a body. It never gives anything away but the certificate of a key that somebody has
// approved, and once one is, only a body that it has signed changes what is known of the machine.
func (r *Registry) Discover(ctx context.Context, body []byte, signature string) (*Discovery, error) {
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
	if err := r.markShared(ctx, d); err != nil {
		return nil, err
	}
	out := &Discovery{Key: key}
	m, err := r.change(ctx, d.Boot.UUID, metal.How{Make: true, Quick: true}, func(dr *metal.Draft, rec *Record) error {
		out.New = dr.New
		out.Proven = key != "" && key == rec.Key
		return r.sight(dr, rec, d, key)
	})
	if err != nil {
		return nil, err
	}
	if Approval(m.Approval) == Pending || m.Record.Asks != nil {
		if rule, ok := r.ruleFor(d); ok && r.mayApproveByRule(m) {
			if m, err = r.approve(ctx, m.UUID, "", "rule "+rule.String()); err != nil {
				return nil, err
			}
		}
	}
	out.Approval = Approval(m.Approval)
	if key != "" && key == m.Record.Key && out.Approval == Approved {
		out.Certificate, out.Proven = m.Record.Certificate, true
	}
	return out, nil
}

// mayApproveByRule: rules look at what a machine says, and that anybody could say. They approve machines that are new, or that somebody
// wants installed anew, and never a second key of one that has a key.
func (r *Registry) mayApproveByRule(m *Machine) bool {
	return Approval(m.Approval) == Pending || m.Record.Reinstall && Approval(m.Approval) == Approved
}

// sight writes what a machine says into its draft.
func (r *Registry) sight(dr *metal.Draft, rec *Record, d *facts.Discovery, key string) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if dr.New {
		dr.Approval, rec.StateAt = string(Pending), now
	}
	proven := key != "" && key == rec.Key
	if err := r.askToEnrol(rec, d, key, now); err != nil {
		return err
	}
	dr.Seen = now
	if rec.Key != "" && !proven {
		if rec.Asks != nil && rec.Asks.Key == key && rec.Asks.Since.Equal(now) {
			dr.Note("asks for approval of another key", key+"; until it is approved, what the machine reports is ignored")
		}
		return nil
	}
	if len(dr.MACs) > 0 && !slices.ContainsFunc(d.MACs(), func(mac string) bool { return slices.Contains(dr.MACs, mac) }) {
		return fail.New(fail.Conflict, "another machine, with the MAC address %s, has this UUID", dr.MACs[0]).At(d.Boot.UUID).
			Do("give this one a UUID of its own in its firmware or BMC; where all its network cards were changed: naupegos machine forget %s", d.Boot.UUID)
	}
	known := *d
	known.Journal, known.Enrolment = nil, nil
	raw, err := json.Marshal(known)
	if err != nil {
		return err
	}
	dr.Facts, dr.MACs = raw, d.MACs()
	rec.Disks = disksInWords(d.Disks)
	if n := d.BootInterface(); n != nil {
		rec.Address, rec.DomainName = n.CIDRv4, strings.Join(n.FQDN, " ")
	}
	if rec.Boot != d.Boot.RandomID || dr.New {
		happens(dr, rec, Discovers, "boot "+d.Boot.RandomID)
	}
	rec.Boot = d.Boot.RandomID
	dr.Boot = &metal.Boot{ID: d.Boot.RandomID}
	dr.Journals = append(dr.Journals, metal.Journal{BootID: d.Boot.RandomID, Kind: DiscoveryJournal, Lines: d.Journal})
	return nil
}

// askToEnrol remembers a key that is not approved, and refuses a body that was sent before.
func (r *Registry) askToEnrol(rec *Record, d *facts.Discovery, key string, now time.Time) error {
	replayed := fail.New(fail.Conflict, "a discovery with this sequence number, or a greater one, was sent already").At(d.Boot.UUID).
		Do("each needs a greater one than the one before: this was sent twice, or by somebody else")
	switch {
	case key == "":
		return nil
	case key == rec.Key:
		if d.Enrolment.Sequence <= rec.Sequence {
			return replayed
		}
		rec.Sequence = d.Enrolment.Sequence
	case rec.Asks != nil && rec.Asks.Key == key:
		if d.Enrolment.Sequence <= rec.Asks.Sequence {
			return replayed
		}
		rec.Asks.Sequence = d.Enrolment.Sequence
	default:
		rec.Asks = &Asking{Key: key, Request: d.Enrolment.Request, Sequence: d.Enrolment.Sequence, Since: now}
	}
	return nil
}

// disksInWords says in one line which disks there are: "2 × 480.1 GB, 1 × 3.8 TB".
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
