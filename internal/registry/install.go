package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// installGroup is the group of places for machines that are being installed.
const installGroup = "install"

// Authorization says whether a machine may be installed now.
type Authorization struct {
	Granted bool
	Why     string // why not
	Expires time.Time
}

// Authorize lets a machine be installed if it is installable and a place is free. The grant expires; the end of the installation returns it.
func (r *Registry) Authorize(ctx context.Context, m *Machine) (*Authorization, error) {
	if why := r.notInstallable(m); why != "" {
		return r.denied(ctx, m, why)
	}
	granted, who, err := r.store.Take(ctx, metal.Want{Group: installGroup, Holder: m.UUID, Detail: m.Title(), Bound: r.o.Installs, TTL: r.o.InstallTTL})
	if err != nil {
		return nil, err
	}
	if !granted {
		names := make([]string, 0, len(who))
		for _, s := range who {
			names = append(names, fmt.Sprintf("%s until %s", s.Detail, s.Expires.Format(time.RFC3339)))
		}
		return r.denied(ctx, m, "Locked by "+strings.Join(names, ", "))
	}
	a := &Authorization{Granted: true}
	for _, s := range who {
		if s.Holder == m.UUID {
			a.Expires = s.Expires
		}
	}
	_, err = r.change(ctx, m.UUID, metal.How{}, func(d *metal.Draft, rec *Record) error {
		happens(d, rec, Grants, "until "+a.Expires.Format(time.RFC3339))
		return nil
	})
	return a, err
}

// notInstallable says why a machine must not be installed, regardless of other machines; empty if it may be.
func (r *Registry) notInstallable(m *Machine) string {
	rec := m.Record
	switch {
	case Approval(m.Approval) != Approved:
		return "the machine is not approved: naupegos machine approve " + m.UUID
	case rec.Maintenance != "":
		return "the machine is in maintenance: " + rec.Maintenance
	case rec.Reinstall:
		return ""
	case rec.Failures >= r.o.InstallRetries:
		return fmt.Sprintf("its installation failed %d times: see why with naupegos machine journal %s, then naupegos machine reinstall %s", rec.Failures, m.UUID, m.UUID)
	case !rec.Installed.IsZero():
		return "the machine was installed at " + rec.Installed.Format(time.RFC3339) + ", and what is on its disk stays: to install it again, naupegos machine reinstall " + m.UUID
	}
	return ""
}

func (r *Registry) denied(ctx context.Context, m *Machine, why string) (*Authorization, error) {
	if State(m.State) == Denied && m.Record.Why == why {
		return &Authorization{Why: why}, nil // not stored: the machine asks again and again
	}
	_, err := r.change(ctx, m.UUID, metal.How{Quick: true}, func(d *metal.Draft, rec *Record) error {
		happens(d, rec, Denies, why)
		return nil
	})
	return &Authorization{Why: why}, err
}

// Finish records the end of a machine's installation, with its log, and returns the authorization. A failure uses up an attempt only if the
// installation was authorized. A repeated report changes nothing, because any host that knows the UUID of a machine without a key can send it.
func (r *Registry) Finish(ctx context.Context, m *Machine, ok bool, log []string) error {
	if Approval(m.Approval) != Approved {
		return fail.New(fail.Refused, "the machine is not approved, and nothing was to be installed on it").At(m.UUID).Do("naupegos machine approve %s", m.UUID)
	}
	held, err := r.store.Give(ctx, installGroup, m.UUID)
	if err != nil {
		return err
	}
	if !ok && !held && State(m.State) == Failed {
		return nil
	}
	_, err = r.change(ctx, m.UUID, metal.How{}, func(d *metal.Draft, rec *Record) error {
		authorized := held || State(d.State) == Granted // Granted: the authorization of a long installation has expired
		rec.Progress = nil
		switch {
		case ok:
			rec.Installed, rec.Failures, rec.Reinstall = time.Now().UTC().Truncate(time.Microsecond), 0, false
			if rec.Order != nil {
				rec.Order = rec.Order.Used()
			}
			happens(d, rec, Succeeds, "")
		case !authorized:
			happens(d, rec, Fails, "it was not authorized")
		default:
			rec.Failures++
			rec.Reinstall = rec.Reinstall && rec.Failures < r.o.InstallRetries
			happens(d, rec, Fails, fmt.Sprintf("attempt %d of %d", rec.Failures, r.o.InstallRetries))
		}
		if rec.Boot != "" && len(log) > 0 {
			d.Boot = &metal.Boot{ID: rec.Boot}
			d.Journals = append(d.Journals, metal.Journal{BootID: rec.Boot, Kind: InstallJournal, Lines: log})
		}
		return nil
	})
	return err
}

// Report stores the digest that a running machine reports, and returns whether it is the wanted one. sequence must grow; with 0, from a machine
// that doesn't count, reports are taken in order of arrival.
func (r *Registry) Report(ctx context.Context, m *Machine, bootID, digest string, sequence int64) (upToDate bool, err error) {
	if digest == "" || len(digest) > 256 || len(bootID) > 256 || sequence < 0 {
		return false, fail.New(fail.Invalid, "a report needs a digest, and a sequence number that is not below zero").At(m.UUID)
	}
	if sequence == 0 {
		sequence = time.Now().UnixMicro()
	}
	if err := r.store.Report(ctx, metal.Report{UUID: m.UUID, BootID: bootID, Digest: digest, Sequence: sequence}); err != nil {
		return false, err
	}
	consented := m.Record.Order != nil && len(m.Record.Order.Disk.Consent) > 0 && digest == m.Record.Wanted && !m.Record.Reinstall // the order is carried out: the machine took it without being installed
	if State(m.State) != Running || m.Record.Boot != bootID && bootID != "" || consented {
		_, err = r.change(ctx, m.UUID, metal.How{Quick: true}, func(d *metal.Draft, rec *Record) error {
			happens(d, rec, Reports, digest)
			if consented && rec.Order != nil && digest == rec.Wanted && !rec.Reinstall {
				rec.Order = rec.Order.Used()
			}
			if bootID != "" {
				rec.Boot, d.Boot = bootID, &metal.Boot{ID: bootID}
			}
			return nil
		})
	}
	return m.Record.Wanted == "" || m.Record.Wanted == digest, err
}

// Booted records that a machine has asked what to boot. It fails with fail.NotFound if the machine is no longer known.
func (r *Registry) Booted(ctx context.Context, m *Machine) error {
	_, err := r.change(ctx, m.UUID, metal.How{Quick: true}, func(d *metal.Draft, rec *Record) error {
		happens(d, rec, Boots, "")
		d.Seen = time.Now().UTC().Truncate(time.Microsecond)
		return nil
	})
	return err
}

// heardOften is the shortest interval between two records that a machine was heard from.
const heardOften = 30 * time.Second

// Heard records that a machine has sent any request: it is on, and need not be started.
func (r *Registry) Heard(ctx context.Context, m *Machine) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if now.Sub(m.Seen) < heardOften {
		return nil
	}
	_, err := r.change(ctx, m.UUID, metal.How{Quick: true}, func(d *metal.Draft, _ *Record) error {
		d.Seen = now
		return nil
	})
	return err
}

// Retries returns how often an installation may fail before an operator must order another attempt.
func (r *Registry) Retries() int { return r.o.InstallRetries }
