package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Paths in a slot, and on the state partition, which is mounted at StateDir.
const (
	StateDir      = "/var/lib/naupegos-machine"
	InstalledFile = "/usr/local/lib/naupegos/installed.json" // the order of the slot
)

// Partitions are the partitions of the machine's disk, by their IDs as in fstab.
type Partitions struct{ Slot, ESP, State string }

// seat adapts the image in a slot to the machine. root is the slot's mount point, and mac the boot interface.
func seat(root string, o *order.Order, p Partitions, mac string) error {
	installed, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the order down")
	}
	type file struct {
		path, text string
		mode       os.FileMode
	}
	all := []file{
		{"/etc/hostname", o.Hostname + "\n", 0o644},
		{"/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 " + o.Hostname + "\n::1 localhost ip6-localhost ip6-loopback\n", 0o644},
		{"/etc/fstab", fstab(p), 0o644},
		{"/root/.ssh/authorized_keys", lines(o.SSHKeys), 0o600},
		{"/etc/ssh/sshd_config.d/10-naupegos.conf", "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n", 0o644},
		{"/etc/cloud/cloud.cfg.d/91-naupegos-network.cfg", "network: {config: disabled}\n", 0o644},
		{"/etc/systemd/system/naupegos-trial.timer.d/50-time.conf", fmt.Sprintf("[Timer]\nOnBootSec=\nOnBootSec=%ds\n", int(o.Trial().Seconds())), 0o644},
		{InstalledFile, string(installed) + "\n", 0o644},
	}
	for name, text := range networkFiles(o, mac) {
		all = append(all, file{"/etc/systemd/network/" + name, text, 0o644})
	}
	if o.UserData == "" {
		all = append(all, file{"/etc/cloud/cloud-init.disabled", "", 0o644})
	} else {
		const seed = "/var/lib/cloud/seed/nocloud/"
		all = append(all, file{seed + "user-data", o.UserData, 0o600}, file{seed + "meta-data", "instance-id: " + o.UUID + "-" + o.Digest()[7:19] + "\nlocal-hostname: " + o.Hostname + "\n", 0o644})
	}
	for _, f := range all {
		if err := Replace(filepath.Join(root, f.path), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(root, "/root/.ssh"), 0o700)
}

// fstab bind-mounts the data that outlasts a system. It creates the data directory of a foreign etcd or kubelet on the state partition.
func fstab(p Partitions) string {
	return fmt.Sprintf("PARTUUID=%s / ext4 rw,errors=remount-ro,x-systemd.growfs 0 1\nPARTUUID=%s /boot/efi vfat umask=0077 0 0\nPARTUUID=%s %s ext4 rw 0 2\n",
		p.Slot, p.ESP, p.State, StateDir) + "" +
		StateDir + "/etcd /var/lib/etcd none bind,x-systemd.requires-mounts-for=" + StateDir + " 0 0\n" +
		StateDir + "/kubelet /var/lib/kubelet none bind,x-systemd.requires-mounts-for=" + StateDir + " 0 0\n"
}

// networkFiles returns the files of systemd-networkd.
func networkFiles(o *order.Order, mac string) map[string]string {
	out := map[string]string{}
	if len(o.Network) == 0 {
		out["10-naupegos.network"] = "[Match]\nMACAddress=" + mac + "\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=false\n"
		return out
	}
	for i, n := range o.Network {
		var b strings.Builder
		fmt.Fprintf(&b, "[Match]\nMACAddress=%s\n\n[Network]\n", n.MAC)
		for _, a := range n.Addresses {
			fmt.Fprintf(&b, "Address=%s\n", a)
		}
		if n.Gateway != "" {
			fmt.Fprintf(&b, "Gateway=%s\n", n.Gateway)
		}
		for _, d := range n.DNS {
			fmt.Fprintf(&b, "DNS=%s\n", d)
		}
		out[fmt.Sprintf("10-naupegos-%d.network", i)] = b.String()
	}
	return out
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}

// Replace atomically replaces a file and creates its directory.
func Replace(path string, data []byte, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	tmp, err := os.OpenFile(path+".naupegos", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	return nil
}

// inSlot mounts a slot with a disk's devices, calls do, and unmounts it.
func inSlot(dev, dir string, do func(root string) error) (err error) {
	undo, err := mount(dev, dir, "ext4", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	devices := filepath.Join(dir, "dev")
	undoDev, err := mount("/dev", devices, "", unix.MS_BIND)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undoDev()) }()
	return do(dir)
}

// hostKeys generates the SSH host keys in a slot that has none, and returns the public ones.
func hostKeys(ctx context.Context, root string) ([]string, error) {
	const file = "/etc/ssh/ssh_host_ed25519_key"
	if _, err := os.Stat(filepath.Join(root, file)); errors.Is(err, os.ErrNotExist) {
		if _, err := run(ctx, root, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file); err != nil {
			return nil, err
		}
	}
	return PublicKeys(root)
}

// PublicKeys returns the public SSH host keys of a system, without comments.
func PublicKeys(root string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(root, "/etc/ssh/ssh_host_*_key.pub"))
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, f := range found {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fail.Wrap(fail.Refused, err, "read the machine's SSH host key")
		}
		if words := strings.Fields(string(data)); len(words) >= 2 {
			out = append(out, words[0]+" "+words[1])
		}
	}
	return out, nil
}

// setBoot configures the boot loader to start a slot.
func setBoot(espDev, dir string, e slots.Env) (err error) {
	undo, err := mount(espDev, dir, "vfat", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	return slots.WriteEnv(filepath.Join(dir, slots.EnvPath), e)
}
