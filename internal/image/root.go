package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// bootPackages are needed in addition to rootfs.MachinePackages by a machine with its own disk and kernel, and by gateways with WireGuard.
var bootPackages = []string{
	"grub-cloud-amd64", "initramfs-tools", "zstd", "udev", "e2fsprogs", "dosfstools", "fdisk", "cloud-guest-utils",
	"systemd-resolved", "systemd-timesyncd", "isc-dhcp-client", "apparmor", "wireguard-tools", "wireguard-go",
}

// initramfsConf is the configuration directory of initramfs-tools, below /etc.
const initramfsConf = "initramfs-tools/conf.d"

// makeRoot makes the tree of the root file system.
func (b *builder) makeRoot(ctx context.Context, root string) error {
	b.Progress.Status("installing Debian %s with mmdebstrap", suite)
	tmp := filepath.Join(b.work, "tmp")
	early := filepath.Join(b.work, "early")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Mkdir(early, 0o700), os.MkdirAll(filepath.Join(early, initramfsConf), 0o755)); err != nil {
		return err
	}
	debian := rootfs.Debian{Suite: suite, Packages: slices.Concat(rootfs.MachinePackages, bootPackages, b.kernel())}
	// Input for the initramfs: the root file system's type, which selects the checker, and a fast compression level. Debian's usual level takes minutes
	// and saves only a few MiB.
	for name, text := range map[string]string{"fstab": b.fstab(), initramfsConf + "/naupegos": "COMPRESS=zstd\nCOMPRESSLEVEL=3\n"} {
		if err := os.WriteFile(filepath.Join(early, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"fstab", path.Dir(initramfsConf)} {
		debian.Hooks = append(debian.Hooks, "essential-hook=copy-in '"+strings.ReplaceAll(filepath.Join(early, name), "'", `'\''`)+"' /etc")
	}
	if err := debian.Directory(ctx, tmp, root); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "install Debian's packages").Do("check that this host reaches its Debian mirror: apt-get update")
	}
	tweaks := b.tweaks()
	if b.Format == System {
		tweaks = b.slotTweaks(tweaks)
	}
	if err := tweaks.Apply(root); err != nil {
		return err
	}
	if err := rootfs.PlaceAgent(b.Agent, b.agent, root); err != nil {
		return err
	}
	if b.Bundle == nil {
		return nil
	}
	return b.placeBundle(ctx, root)
}

// kernel returns Debian's kernel package for the image's purpose: the one for clouds has no drivers for real hardware.
func (b *builder) kernel() []string {
	if b.Format == System && !b.Virtual {
		return []string{"linux-image-amd64"}
	}
	return []string{"linux-image-cloud-amd64"}
}

// placeBundle puts the bundle's programs and, imported and unpacked, its container images into the tree. Machines do not need the images' archives,
// because containerd's store has the images.
func (b *builder) placeBundle(ctx context.Context, root string) error {
	if err := rootfs.PlaceBlobs(b.Bundle, b.Bundle.Manifest.Binaries, root); err != nil {
		return err
	}
	store := filepath.Join(root, machine.ContainerdRoot)
	if err := os.MkdirAll(filepath.Dir(store), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "naupegos-image-") // sockets require short paths
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	return rootfs.ImageStore(ctx, b.Bundle, store, tmp, b.Progress)
}

// tweaks turn the packages into a machine's root file system, without traces of this host and without data that must be unique for each machine.
func (b *builder) tweaks() rootfs.Tweaks {
	units := "etc/systemd/system/"
	lib := "/lib/systemd/system/"
	return rootfs.Tweaks{
		Remove: []string{
			"etc/ssh/ssh_host_*", "etc/hostname", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "var/lib/cloud/*", "var/log/*.log",
			"etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list.d/*", // this host's mirrors and proxies, perhaps with passwords
			units + "*.wants/haproxy.service", units + "*.wants/keepalived.service", // gateways' configuration enables them
		},
		Dirs: []string{"var/log/journal", "var/lib/naupegos", "boot/efi"},
		Links: map[string]string{
			"etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf",
			units + "dbus-org.freedesktop.network1.service":                            lib + "systemd-networkd.service",
			units + "multi-user.target.wants/systemd-networkd.service":                 lib + "systemd-networkd.service",
			units + "sockets.target.wants/systemd-networkd.socket":                     lib + "systemd-networkd.socket",
			units + "network-online.target.wants/systemd-networkd-wait-online.service": lib + "systemd-networkd-wait-online.service",
		},
		Files: map[string]string{
			"etc/machine-id":                         "", // made at the first boot
			"etc/fstab":                              b.fstab(),
			"etc/apt/sources.list":                   aptSources,
			"etc/cloud/cloud.cfg.d/90-naupegos.cfg":  cloudConfig,
			"etc/ssh/sshd_config.d/10-naupegos.conf": "PasswordAuthentication no\nKbdInteractiveAuthentication no\n",
			"boot/grub/grub.cfg":                     b.grubConfig(),
			"etc/grub.d/enable_cloud":                "", // makes grub-cloud-amd64 install new versions of GRUB
			"usr/local/lib/naupegos/image":           fmt.Sprintf("bundle %s\nkubernetes %s\nnaupegos %s\n", b.bundleID(), b.title(), b.Version),
		},
	}
}

func (b *builder) fstab() string {
	if b.Format == System { // the installer determines the partition
		return "/dev/root / ext4 rw,errors=remount-ro 0 1\n"
	}
	return fmt.Sprintf("UUID=%s / ext4 rw,errors=remount-ro,discard 0 1\nUUID=%s /boot/efi vfat umask=0077,nofail 0 0\n", b.ids.root, b.ids.espName())
}

const aptSources = `deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://security.debian.org/debian-security bookworm-security main
`

// cloudConfig names the sources of user data. The rest is as in Debian's cloud-init, because naupegos' user data makes its own choices.
const cloudConfig = `# made by naupegos
datasource_list: [NoCloud, ConfigDrive, OpenStack, None]
system_info:
  network:
    renderers: [networkd]
    activators: [networkd]
`
