package install

import (
	"context"
	"encoding/json"
	"errors"

	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Place has the paths of the running machine that an update needs.
type Place struct {
	Root   string // root of the running system; empty: /
	Slot   string // slot of the running system
	ByID   string // directory of the partitions by ID; empty: /dev/disk/by-partuuid
	ESP    string // mount point of the EFI system partition; empty: /boot/efi
	Mount  string // temporary mount point of the other slot; empty: /run/naupegos-slot
	Device func(id string) string
}

func (p *Place) defaults() {
	for _, v := range []struct {
		at    *string
		usual string
	}{{&p.Root, "/"}, {&p.ByID, "/dev/disk/by-partuuid"}, {&p.ESP, "/boot/efi"}, {&p.Mount, "/run/naupegos-slot"}} {
		if *v.at == "" {
			*v.at = v.usual
		}
	}
	if p.Device == nil {
		p.Device = func(id string) string { return filepath.Join(p.ByID, strings.ToLower(id)) }
	}
}

// Stage writes the system of an order into the slot that does not run, and copies the machine's identity and the applied configuration into it. It
// touches nothing that runs, and does not change what boots: see Try. Root's fstab has the IDs of the partitions.
func Stage(ctx context.Context, server *ask.Server, o *order.Order, p Place, mac string, say func(string)) error {
	p.defaults()
	env, err := slots.ReadEnv(filepath.Join(p.ESP, slots.EnvPath))
	if err != nil {
		return err
	}
	if env.Try != "" { // a pending trial is now overwritten
		env.Try = ""
		if err := slots.WriteEnv(filepath.Join(p.ESP, slots.EnvPath), env); err != nil {
			return err
		}
	}
	other := slots.Other(p.Slot)
	id := env.ID(other)
	parts, err := partitionsOf(filepath.Join(p.Root, "etc/fstab"))
	if err != nil {
		return err
	}
	parts.Slot = id
	dev := p.Device(id)
	if err := roomFor(dev, o.System.Root); err != nil {
		return err
	}
	if err := writeBlob(ctx, server, dev, o.System.Root, false, say, func(int64) error { return context.Cause(ctx) }); err != nil {
		return err
	}
	return inSlot(dev, p.Mount, func(root string) error {
		if err := carry(ctx, p.Root, root); err != nil {
			return err
		}
		return seat(root, o, parts, mac)
	})
}

// roomFor refuses an image that is larger than the slot.
func roomFor(dev string, b order.Blob) error {
	f, err := os.Open(dev)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "open the slot")
	}
	defer f.Close() // read only
	if size, err := f.Seek(0, 2); err != nil || size < b.RawSize {
		return fail.New(fail.Refused, "the slot has %d MiB, and the system needs %d", size>>20, b.RawSize>>20).At(dev).Do("install the machine again with larger slots: naupegos machine reinstall")
	}
	return nil
}

// Try configures the boot loader to boot the other slot once, at the next start.
func Try(p Place) error {
	p.defaults()
	path := filepath.Join(p.ESP, slots.EnvPath)
	env, err := slots.ReadEnv(path)
	if err != nil {
		return err
	}
	env.Good, env.Try = p.Slot, slots.Other(p.Slot)
	return slots.WriteEnv(path, env)
}

// LoadOther loads the kernel of the other slot for kexec, which is also a trial.
func LoadOther(p Place) error {
	p.defaults()
	env, err := slots.ReadEnv(filepath.Join(p.ESP, slots.EnvPath))
	if err != nil {
		return err
	}
	other := slots.Other(p.Slot)
	id := env.ID(other)
	return inSlot(p.Device(id), p.Mount, func(root string) error { return loadKernel(root, other, id, true) })
}

// Confirm configures the boot loader to boot the running slot from now on.
func Confirm(p Place) error {
	p.defaults()
	path := filepath.Join(p.ESP, slots.EnvPath)
	env, err := slots.ReadEnv(path)
	if err != nil {
		return err
	}
	if env.Good == p.Slot && env.Try == "" {
		return nil
	}
	env.Good, env.Try = p.Slot, ""
	return slots.WriteEnv(path, env)
}

// Live applies an order that differs only in settings that need no restart to the running system. It returns fail.Refused for any other order.
func Live(o, now *order.Order, root string) error {
	rest := *o
	rest.SSHKeys, rest.TrialSeconds, rest.Group, rest.First, rest.Disk, rest.Data = now.SSHKeys, now.TrialSeconds, now.Group, now.First, now.Disk, now.Data
	if rest.Digest() != now.Digest() {
		return fail.New(fail.Refused, "the machine is to have another system, name, network or user-data, which needs a restart").At(o.UUID).Do("choose the strategy reboot or kexec")
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the order down")
	}
	return errors.Join(Replace(filepath.Join(root, "/root/.ssh/authorized_keys"), []byte(lines(o.SSHKeys)), 0o600), Replace(filepath.Join(root, InstalledFile), append(data, '\n'), 0o644))
}

// Installed returns the order that the running system was written from.
func Installed(root string) (*order.Order, error) {
	data, err := os.ReadFile(filepath.Join(root, InstalledFile))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the installed order")
	}
	return order.Parse(data)
}

// partitionsOf returns the partition IDs in a system's fstab.
func partitionsOf(fstab string) (p Partitions, err error) {
	data, err := os.ReadFile(fstab)
	if err != nil {
		return p, fail.Wrap(fail.Refused, err, "read which partitions the system has")
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		id, _ := strings.CutPrefix(f[0], "PARTUUID=")
		switch f[1] {
		case "/":
			p.Slot = id
		case "/boot/efi":
			p.ESP = id
		case StateDir:
			p.State = id
		}
	}
	if p.ESP == "" || p.State == "" {
		return p, fail.New(fail.Refused, "the system was not installed by naupegos").At(fstab)
	}
	return p, nil
}

// kept lists the files of the machine's identity, which every system of the machine needs.
var kept = []string{"/etc/machine-id", "/etc/ssh/ssh_host_*", "/etc/kubernetes", "/etc/cni", "/var/lib/cni", "/var/lib/naupegos/agent", "/usr/local/lib/naupegos/agent", "/root/.ssh"}

// carry copies the applied configuration of the running system into the other slot, including the units enabled for it.
func carry(ctx context.Context, from, to string) error {
	var applied struct {
		Paths map[string]struct{ Kind string }
		Units map[string]any
		Blobs []string
	}
	data, err := os.ReadFile(filepath.Join(from, "/var/lib/naupegos/agent/state.json"))
	if err == nil {
		err = json.Unmarshal(data, &applied)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail.Wrap(fail.Refused, err, "read the applied configuration")
	}
	patterns := append([]string{}, kept...)
	for path, a := range applied.Paths {
		if a.Kind != "directory" && !strings.HasPrefix(path, "/var/lib/etcd/") && !strings.HasPrefix(path, "/var/lib/kubelet/") {
			patterns = append(patterns, path)
		}
	}
	for unit := range applied.Units {
		patterns = append(patterns, "/etc/systemd/system/*.wants/"+unit, "/etc/systemd/system/*.requires/"+unit)
	}
	for _, b := range applied.Blobs {
		patterns = append(patterns, "/var/lib/naupegos/blobs/sha256/"+strings.TrimPrefix(b, "sha256:"))
	}
	args := []string{"-a", "--parents", "-t", to}
	n := len(args)
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "%q was applied, and is not a path", pattern)
		}
		for _, f := range found {
			rel, err := filepath.Rel(from, f)
			if err != nil {
				return err
			}
			args = append(args, "./"+rel)
		}
	}
	if len(args) == n {
		return nil
	}
	if _, err := run(ctx, "", "", "env", append([]string{"-C", from, "cp"}, args...)...); err != nil {
		return fail.Wrap(fail.Refused, err, "copy the applied files")
	}
	return nil
}
