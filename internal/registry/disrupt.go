package registry

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Strategy is the way in which a machine takes an update.
type Strategy struct {
	Kind     string `json:"strategy,omitempty"` // one of Strategies; empty: none was chosen
	Disabled bool   `json:"disabled,omitempty"` // the chosen one is not in effect now
}

// Strategies lists the ways in which a machine can take an update.
func Strategies() []string { return []string{"kexec", "live", "none", "poweroff", "reboot"} }

// SetStrategy chooses a strategy; the empty kind disables the chosen one.
func (r *Registry) SetStrategy(ctx context.Context, uuid, kind string) (*Machine, error) {
	if kind != "" && !slices.Contains(Strategies(), kind) {
		return nil, fail.New(fail.Invalid, "there is no strategy %q", kind).Do("it is one of %v", Strategies())
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if kind == "" {
			rec.Strategy.Disabled = rec.Strategy.Kind != ""
			d.Note("takes no updates", "")
			return nil
		}
		rec.Strategy = Strategy{Kind: kind}
		d.Note("takes updates by", kind)
		return nil
	})
}

// Holders returns all held places, for installations and for reboots.
func (r *Registry) Holders(ctx context.Context) ([]metal.Slot, error) { return r.store.Slots(ctx, "") }

// Release takes a place from a holder that will never come back. group and holder are as Holders returns them.
func (r *Registry) Release(ctx context.Context, group, holder string) (held bool, err error) {
	return r.store.Give(ctx, group, holder)
}
