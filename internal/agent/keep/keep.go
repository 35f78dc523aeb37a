// Package keep runs on an installed machine: it reports every minute what is installed, confirms a new system once its server has answered it, and
// applies updates by the machine's strategy.
//
// It contacts the server with the machine's own identity. The server decides which order is wanted, and when the machine may reboot, also on behalf
// of a cluster.
package keep

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Server is the machine's server; ask.Server implements it.
type Server interface {
	Report(ctx context.Context, r ask.Report) (ask.Reported, error)
	Order(ctx context.Context) (*order.Order, error)
	MayReboot(ctx context.Context, group string) error
	Back(ctx context.Context, group string) error
}

// System is the running machine.
type System interface {
	Stage(ctx context.Context, o *order.Order) error // writes the other slot
	Try() error                                      // makes the boot loader try that slot
	Load() error                                     // loads its kernel for kexec
	Confirm() error                                  // makes the boot loader start the running slot
	Leave(ctx context.Context, how string) error     // with order.Reboot, order.Kexec or order.Poweroff
}

// Options describe the machine.
type Options struct {
	Dir    string // directory of the data that outlasts a system: install.StateDir
	Root   string // order of the running system; empty: /
	Server Server
	System System
	BootID string
	Slot   string // that runs
	Trial  bool   // for the first time
	Every  time.Duration
	Say    func(string)
}

// memory is the state that outlasts a system, in Dir.
type memory struct {
	Pending  *attempt `json:"pending,omitempty"`  // the current or imminent trial
	Refused  string   `json:"refused,omitempty"`  // digest of a tried order whose trial failed
	Group    string   `json:"group,omitempty"`    // group in which the machine may still hold a reboot slot
	Sequence int64    `json:"sequence,omitempty"` // of the last report: the clock may have been set back
}

// attempt is an update.
type attempt struct {
	Digest string `json:"digest"`
	Slot   string `json:"slot"`           // that it was written to
	Ready  bool   `json:"ready"`          // written completely
	Left   bool   `json:"left,omitempty"` // the machine has rebooted to try it
}

const memoryFile = "updates.json"

// keeper keeps a machine.
type keeper struct {
	Options
	m    memory
	said string
}

// Run keeps the machine until ctx ends.
func Run(ctx context.Context, o Options) error {
	k, err := open(o)
	if err != nil {
		return err
	}
	for {
		if err := k.round(ctx); err != nil && ctx.Err() == nil {
			k.tell(err.Error())
		}
		select {
		case <-time.After(k.Every):
		case <-ctx.Done():
			return nil
		}
	}
}

func open(o Options) (*keeper, error) {
	k := &keeper{Options: o}
	if k.Every <= 0 {
		k.Every = time.Minute
	}
	if k.Root == "" {
		k.Root = "/"
	}
	data, err := os.ReadFile(filepath.Join(k.Dir, memoryFile))
	if errors.Is(err, os.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the results of updates")
	}
	if json.Unmarshal(data, &k.m) != nil {
		k.m = memory{} // damaged by a power cut: the update is retried at most once
	}
	return k, nil
}

// tell says something once.
func (k *keeper) tell(text string) {
	if text != k.said {
		k.said = text
		k.Say(text)
	}
}

func (k *keeper) save() error {
	data, err := json.Marshal(k.m)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "store the results of updates")
	}
	return install.Replace(filepath.Join(k.Dir, memoryFile), data, 0o600)
}

// round sends one report and acts on its answer.
func (k *keeper) round(ctx context.Context) error {
	now, err := install.Installed(k.Root)
	if err != nil {
		return err
	}
	if p := k.m.Pending; p != nil && p.Left && p.Slot != k.Slot {
		k.Say("the system " + p.Digest + " in slot " + p.Slot + " did not stay: this is the one before")
		k.m.Refused, k.m.Pending = p.Digest, nil
		if err := k.save(); err != nil {
			return err
		}
	}
	answer, err := k.report(ctx, now.Digest())
	if err != nil {
		return err
	}
	if err := k.confirm(ctx); err != nil {
		return err
	}
	switch {
	case answer.UpToDate:
		return k.settle(ctx)
	case answer.Wanted == k.m.Refused:
		return k.settle(ctx)
	}
	return k.update(ctx, now, answer)
}

func (k *keeper) report(ctx context.Context, digest string) (ask.Reported, error) {
	keys, err := install.PublicKeys(k.Root)
	if err != nil {
		return ask.Reported{}, err
	}
	k.m.Sequence = max(k.m.Sequence+1, time.Now().UnixMicro())
	if err := k.save(); err != nil {
		return ask.Reported{}, err
	}
	return k.Server.Report(ctx, ask.Report{BootID: k.BootID, Digest: digest, Sequence: k.m.Sequence, Slot: k.Slot, HostKeys: keys, Refused: k.m.Refused})
}

// confirm confirms a system that has reached its server.
func (k *keeper) confirm(_ context.Context) error {
	p := k.m.Pending
	if !k.Trial && (p == nil || !p.Left) {
		return nil
	}
	if err := k.System.Confirm(); err != nil {
		return err
	}
	k.Say("this system has reached its server: slot " + k.Slot + " stays")
	k.Trial, k.m.Pending = false, nil
	if p != nil && p.Digest == k.m.Refused {
		k.m.Refused = ""
	}
	return k.save()
}

// settle releases the machine's reboot slot.
func (k *keeper) settle(ctx context.Context) error {
	if k.m.Group == "" || k.m.Pending != nil && k.m.Pending.Left {
		return nil
	}
	if err := k.Server.Back(ctx, k.m.Group); err != nil {
		return err
	}
	k.m.Group = ""
	return k.save()
}

// update applies an order that differs from the running one, by the machine's strategy.
func (k *keeper) update(ctx context.Context, now *order.Order, answer ask.Reported) error {
	if answer.Strategy == "" || answer.Strategy == "none" {
		return k.settle(ctx)
	}
	o, err := k.Server.Order(ctx)
	if err != nil {
		if fail.KindOf(err) == fail.NotFound {
			return nil // the digest was set manually, or is Ignition's
		}
		return err
	}
	digest := o.Digest()
	if digest == k.m.Refused || digest == now.Digest() {
		return nil
	}
	if answer.Strategy == "live" {
		if err := install.Live(o, now, k.Root); err != nil {
			return err
		}
		k.Say("brought up to " + digest + " while running")
		return nil
	}
	if p := k.m.Pending; p == nil || p.Digest != digest || !p.Ready {
		if err := k.stage(ctx, o, digest); err != nil {
			return err
		}
	}
	k.m.Group = o.RebootGroup()
	if err := k.save(); err != nil {
		return err
	}
	if err := k.Server.MayReboot(ctx, k.m.Group); err != nil {
		return err
	}
	return k.leave(ctx, answer.Strategy)
}

func (k *keeper) stage(ctx context.Context, o *order.Order, digest string) error {
	k.m.Pending = &attempt{Digest: digest, Slot: other(k.Slot)}
	if err := k.save(); err != nil {
		return err
	}
	k.Say("writing " + o.System.Kubernetes + " into slot " + k.m.Pending.Slot)
	if err := k.System.Stage(ctx, o); err != nil {
		return err
	}
	k.m.Pending.Ready = true
	return k.save()
}

// leave reboots into the other slot.
func (k *keeper) leave(ctx context.Context, how string) error {
	do := k.System.Try
	if how == order.Kexec {
		do = k.System.Load
	}
	if err := do(); err != nil {
		return err
	}
	k.m.Pending.Left = true
	if err := k.save(); err != nil {
		return err
	}
	k.Say("going to try slot " + k.m.Pending.Slot + " by " + how)
	return k.System.Leave(ctx, how)
}
