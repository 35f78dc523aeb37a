package keep

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

func other(slot string) string { return slots.Other(slot) }

// This is the machine that the program runs on.
type This struct {
	server *ask.Server
	place  install.Place
	mac    string
	say    func(string)
}

// Here returns the options for the machine that the program runs on, or fail.NotFound if Naupegos did not install it.
func Here(dir string, say func(string)) (Options, error) {
	id, err := install.LoadIdentity(dir)
	if err != nil {
		return Options{}, err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return Options{}, fail.Wrap(fail.Internal, err, "read how the kernel was started")
	}
	slot, trial := install.Running(string(cmdline))
	if slot == "" {
		return Options{}, fail.New(fail.Refused, "the kernel was not started from a slot").At("/proc/cmdline")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Options{}, fail.Wrap(fail.Internal, err, "read the boot's ID")
	}
	server, err := id.Dial()
	if err != nil {
		return Options{}, err
	}
	return Options{Dir: dir, Server: server, System: &This{server, install.Place{Slot: slot}, id.MAC, say}, BootID: strings.TrimSpace(string(boot)), Slot: slot, Trial: trial, Say: say}, nil
}

// Stage implements System.
func (t *This) Stage(ctx context.Context, o *order.Order) error {
	return install.Stage(ctx, t.server, o, t.place, t.mac, t.say)
}

// Try implements System.
func (t *This) Try() error { return install.Try(t.place) }

// Load implements System.
func (t *This) Load() error { return install.LoadOther(t.place) }

// Confirm implements System. It stops the rollback timer last: if that fails, the machine returns to the confirmed slot.
func (t *This) Confirm() error {
	if err := install.Confirm(t.place); err != nil {
		return err
	}
	return systemctl(context.Background(), "stop", "naupegos-trial.timer")
}

// Leave implements System.
func (t *This) Leave(ctx context.Context, how string) error {
	return systemctl(ctx, how)
}

func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "/usr/bin/systemctl", args...).CombinedOutput()
	if err != nil {
		return fail.Wrap(fail.Refused, err, "systemctl %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
	}
	return nil
}
