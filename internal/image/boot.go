package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/tool"
)

// console selects the consoles of kernel and GRUB: the screen, and the serial line that clouds show as the console log.
const console = "console=tty0 console=ttyS0,115200 consoleblank=0"

// grubConfig returns the configuration that boots the kernel behind Debian's links. After a kernel update, Debian's own scripts rewrite it.
func (b *builder) grubConfig() string {
	return fmt.Sprintf(`# made by naupegos; update-grub replaces it
set timeout=1
set default=0
if [ "$grub_platform" = pc ]; then
  serial --speed=115200
  terminal_input console serial
  terminal_output console serial
fi
search --no-floppy --fs-uuid --set=root %[1]s
menuentry 'Debian GNU/Linux' {
  linux /vmlinuz root=UUID=%[1]s ro %[2]s
  initrd /initrd.img
}
`, b.ids.root, console)
}

// findConfig returns the commands with which GRUB finds its configuration on the root file system.
func (b *builder) findConfig() string {
	return fmt.Sprintf("search.fs_uuid %s root\nset prefix=($root)/boot/grub\n", b.ids.root)
}

// grubPC is the directory of GRUB for BIOS in Debian's packages.
const grubPC = "usr/lib/grub/i386-pc"

// installGRUB puts GRUB's modules for BIOS into the tree and returns the file with its core. It uses the tree's own GRUB, so that this host needs
// none.
func (b *builder) installGRUB(ctx context.Context, root string) (core string, err error) {
	dir := filepath.Join(root, "boot/grub/i386-pc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(root, grubPC, "*.[ml][os][dt]"))
	if err != nil {
		return "", err
	}
	for _, f := range append(files, filepath.Join(root, grubPC, "boot.img")) {
		if err := rootfs.CopyFile(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "load.cfg"), []byte(b.findConfig()), 0o644); err != nil {
		return "", err
	}
	args := []string{"--config=/boot/grub/i386-pc/load.cfg", "--prefix=/boot/grub", "biosdisk", "part_gpt", "ext2", "search_fs_uuid"}
	if b.Format == System {
		args = slotModules
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/grub-mkimage", append([]string{"--format=i386-pc", "--output=/boot/grub/i386-pc/core.img"}, args...)...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = tool.Env(), "/", &syscall.SysProcAttr{Chroot: root}
	return filepath.Join(dir, "core.img"), tool.Do(ctx, cmd)
}

// The parts of GRUB's images that grub-bios-setup changes (grub's include/grub/offsets.h, util/setup.c).
const (
	bootCode       = 440   // bytes of boot.img for the first sector; the rest is the partition table
	bootCoreSector = 0x5c  // in boot.img: the first sector of the core
	bootDriveCheck = 0x66  // in boot.img: a jump over the check of the drive's number, for floppies
	coreBlockList  = 0x1f4 // in the core: its list of blocks
)

// embedGRUB puts boot.img into the first sector and the core into the BIOS boot partition, as grub-bios-setup does with a block device.
func embedGRUB(disk *os.File, root, coreFile string) error {
	boot, err := os.ReadFile(filepath.Join(root, grubPC, "boot.img"))
	if err != nil {
		return err
	}
	core, err := os.ReadFile(coreFile)
	if err != nil {
		return err
	}
	boot, core, err = setupGRUB(boot, core, uint64(biosStart/sector))
	if err != nil {
		return err
	}
	_, err = disk.WriteAt(boot, 0)
	_, coreErr := disk.WriteAt(core, biosStart)
	return errors.Join(err, coreErr)
}

// setupGRUB writes the start of the core into both images.
func setupGRUB(boot, core []byte, start uint64) (code, patched []byte, err error) {
	sectors := (int64(len(core)) + sector - 1) / sector
	if len(boot) != int(sector) || sectors < 2 || sectors*sector > biosSize {
		return nil, nil, fail.New(fail.Internal, "GRUB's images have %d and %d bytes", len(boot), len(core))
	}
	boot, core = bytes.Clone(boot), bytes.Clone(core)
	binary.LittleEndian.PutUint64(boot[bootCoreSector:], start)
	boot[bootDriveCheck], boot[bootDriveCheck+1] = 0x90, 0x90
	binary.LittleEndian.PutUint64(core[coreBlockList:], start+1)
	if n := binary.LittleEndian.Uint16(core[coreBlockList+8:]); int64(n) != sectors-1 {
		return nil, nil, fail.New(fail.Internal, "GRUB's core has %d sectors and says %d: this program does not know this GRUB", sectors, n)
	}
	return boot[:bootCode], core, nil
}

// makeESP makes the EFI system partition with Debian's signed shim and GRUB, which secure boot accepts. They are where firmware looks on an
// unknown disk, and where Debian's updates write them.
func (b *builder) makeESP(ctx context.Context, root, file string) error {
	dir := filepath.Join(b.work, "EFI")
	const shim, grub = "usr/lib/shim/shimx64.efi.signed", "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
	for to, from := range map[string]string{
		"BOOT/BOOTX64.EFI": shim, "BOOT/grubx64.efi": grub, "debian/shimx64.efi": shim, "debian/grubx64.efi": grub,
	} {
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := rootfs.CopyFile(filepath.Join(root, from), to); err != nil {
			return err
		}
	}
	config := b.findConfig() + "configfile $prefix/grub.cfg\n"
	if b.Format == System {
		config = slotGrub
		if err := os.WriteFile(filepath.Join(dir, "debian", "grubenv"), slots.Env{}.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "debian", "grub.cfg"), []byte(config), 0o644); err != nil {
		return err
	}
	_, err := tool.Run(ctx, nil, "mkfs.vfat", "-C", "-F", "32", "-s", "1", "-n", "ESP", "-i", fmt.Sprintf("%08x", b.ids.esp), file, fmt.Sprint(espSize/kib))
	if err != nil {
		return err
	}
	_, err = tool.Run(ctx, nil, "mcopy", "-s", "-i", file, dir, "::")
	return err
}
