package registry

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Progress is the progress of an installation.
type Progress struct {
	Stage string    `json:"stage"` // current stage: "partition", "write root"…
	Done  int64     `json:"done"`  // bytes
	Total int64     `json:"total"` // bytes; 0: unknown
	At    time.Time `json:"at"`
}

// SetOrder sets the installation order of a machine, and thereby the digest that it should report; nil withdraws the order. A running machine
// becomes outdated, and takes the order by its strategy.
func (r *Registry) SetOrder(ctx context.Context, uuid string, o *order.Order, by string) (*Machine, error) {
	if o != nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
		if o.UUID != uuid {
			return nil, fail.New(fail.Invalid, "the installation order is for %s", o.UUID).At(uuid)
		}
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if o == nil || rec.Order != nil && (o.Group != rec.Order.Group || o.Hostname != rec.Order.Hostname) {
			if err := r.inUse(ctx, uuid, "change its purpose", d.Claim, rec); err != nil {
				return err
			}
		}
		if err := hasDisks(d.Facts, rec.Order, o); err != nil {
			return err
		}
		wanted := ""
		if o != nil {
			wanted = o.Digest()
		}
		if rec.Order == nil && o == nil || rec.Order != nil && o != nil && rec.Wanted == wanted && slices.Equal(rec.Order.Disk.Consent, o.Disk.Consent) {
			return nil
		}
		rec.Order, rec.Wanted = o, wanted
		if o == nil {
			d.Note("installation order withdrawn", "by "+by)
		} else {
			d.Note("installation ordered:", o.System.Kubernetes+" as "+o.Hostname+", by "+by)
		}
		return nil
	})
}

// Ordered returns the installation order of a machine, or fail.NotFound.
func (r *Registry) Ordered(m *Machine) (*order.Order, error) {
	if m.Record.Order == nil {
		return nil, fail.New(fail.NotFound, "no installation is ordered for the machine").At(m.UUID).Do("order one: naupegos machine install %s", m.UUID)
	}
	return m.Record.Order, nil
}

var stageForm = regexp.MustCompile(`^[a-z][a-z 0-9]{0,39}$`)

// Renew stores the progress of an installation and extends its authorization. It fails with fail.Conflict if the authorization has ended, because
// another machine may have its place.
func (r *Registry) Renew(ctx context.Context, m *Machine, p Progress) (expires time.Time, err error) {
	if !stageForm.MatchString(p.Stage) || p.Done < 0 || p.Total < 0 {
		return expires, fail.New(fail.Invalid, "a progress has a stage in lower-case words, and bytes that are not below zero").At(m.UUID)
	}
	held, err := r.store.Slots(ctx, installGroup)
	if err != nil {
		return expires, err
	}
	mine := func(s metal.Slot) bool { return s.Holder == m.UUID }
	if !slices.ContainsFunc(held, mine) {
		return expires, fail.New(fail.Conflict, "the authorization of the installation has ended").At(m.UUID).Do("the machine has to ask again; --install-time says how long one lasts")
	}
	granted, held, err := r.store.Take(ctx, metal.Want{Group: installGroup, Holder: m.UUID, Detail: m.Title(), Bound: r.o.Installs, TTL: r.o.InstallTTL})
	if err != nil {
		return expires, err
	}
	if i := slices.IndexFunc(held, mine); granted && i >= 0 {
		expires = held[i].Expires
	}
	p.At = time.Now().UTC().Truncate(time.Microsecond)
	_, err = r.change(ctx, m.UUID, metal.How{Quick: true}, func(d *metal.Draft, rec *Record) error {
		d.Seen, rec.Progress = p.At, &p // it is on and need not be started
		return nil
	})
	return expires, err
}

// Told is what a machine reports about its installed system in addition to the digest.
type Told struct {
	HostKeys []string // the machine's SSH host keys; nil: unchanged
	Slot     string   // slot of the running system; empty: unchanged
	Refused  string   // digest of a system that it tried and fell back from
	Address  string   // address that the report came from; empty: unchanged
}

var hostKeyForm = regexp.MustCompile(`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{16,}={0,2}$`)

// Tell stores what an approved machine reports about its installed system. It writes only changes.
func (r *Registry) Tell(ctx context.Context, m *Machine, t Told) error {
	if len(t.HostKeys) > 8 || !slices.Contains([]string{"", "a", "b"}, t.Slot) || len(t.Refused) > 256 {
		return fail.New(fail.Invalid, "a system runs from the slot a or b, and has at most eight host keys").At(m.UUID)
	}
	for _, k := range t.HostKeys {
		if len(k) > 1000 || !hostKeyForm.MatchString(k) {
			return fail.New(fail.Invalid, "this is not an SSH host key").At(m.UUID)
		}
	}
	if Approval(m.Approval) != Approved {
		return nil // a stranger could have sent it
	}
	rec, at := m.Record, addressed(m.Record.Address, t.Address)
	if at == m.Record.Address && (t.HostKeys == nil || slices.Equal(t.HostKeys, rec.HostKeys)) && (t.Slot == "" || t.Slot == rec.Slot) && t.Refused == rec.Refused {
		return nil
	}
	_, err := r.change(ctx, m.UUID, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if t.HostKeys != nil && !slices.Equal(t.HostKeys, rec.HostKeys) {
			rec.HostKeys = t.HostKeys
			d.Note("has the SSH host keys", strings.Join(t.HostKeys, ", "))
		}
		if t.Slot != "" && t.Slot != rec.Slot {
			rec.Slot = t.Slot
			d.Note("runs from slot", t.Slot)
		}
		rec.Address = addressed(rec.Address, t.Address)
		if t.Refused != rec.Refused {
			rec.Refused = t.Refused
			if t.Refused != "" {
				d.Note("rolled back from", t.Refused)
			}
		}
		return nil
	})
	return err
}

// addressed returns the address heard with the prefix length of was; it returns was if heard is no other usable address.
func addressed(was, heard string) string {
	ip, err := netip.ParseAddr(heard)
	if err != nil || ip.IsLoopback() {
		return was
	}
	before, err := netip.ParsePrefix(was)
	switch {
	case err == nil && before.Addr() == ip:
		return was
	case err == nil && before.Addr().Is4() == ip.Is4():
		return netip.PrefixFrom(ip, before.Bits()).String()
	}
	return netip.PrefixFrom(ip, ip.BitLen()).String()
}
