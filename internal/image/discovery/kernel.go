package discovery

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Modules are the modules that machines need before their installation, by path below kernel/ in the directory of modules; directories end with a
// slash. Their dependencies are included.
var Modules = []string{
	"drivers/net/ethernet/", "drivers/net/phy/", "drivers/net/mdio/", "drivers/net/virtio_net.ko", "drivers/net/vmxnet3/", "drivers/net/hyperv/", "drivers/net/xen-netfront.ko",
	"drivers/ata/", "drivers/nvme/host/", "drivers/scsi/", "drivers/message/", "drivers/block/virtio_blk.ko", "drivers/block/xen-blkfront.ko", "drivers/block/loop.ko",
	"drivers/virtio/", "drivers/hv/", "drivers/usb/host/", "drivers/usb/storage/", "drivers/mmc/host/sdhci", "drivers/mmc/core/", "drivers/pci/controller/",
	"drivers/char/ipmi/", "drivers/char/hw_random/virtio-rng.ko", "drivers/md/dm-mod.ko", "drivers/acpi/", "drivers/hid/usbhid/", "drivers/hid/hid-generic.ko",
	"fs/ext4/", "fs/fat/", "fs/nls/nls_", "fs/squashfs/", "fs/overlayfs/", "fs/efivarfs/",
}

// Virtual are the modules for emulated computers.
var Virtual = []string{
	"drivers/net/virtio_net.ko", "drivers/net/ethernet/intel/e1000", "drivers/ata/ahci.ko", "drivers/ata/ata_piix.ko", "drivers/nvme/host/", "drivers/scsi/sd_mod.ko",
	"drivers/scsi/virtio_scsi.ko", "drivers/block/virtio_blk.ko", "drivers/virtio/", "drivers/char/hw_random/virtio-rng.ko",
	"fs/ext4/", "fs/fat/", "fs/nls/nls_cp437.ko", "fs/nls/nls_ascii.ko", "fs/nls/nls_utf8.ko", "fs/nls/nls_iso8859-1.ko", "fs/squashfs/", "fs/overlayfs/", "fs/efivarfs/",
}

// kernel is the part of a kernel package that an image contains.
type kernel struct {
	release string
	image   []byte
	modules map[string]module // all modules of the package, by file below the directory of modules
	content map[string][]byte // content of the chosen modules
}

// module is a module's description of itself.
type module struct {
	aliases, needs, before []string // its devices; modules that it needs; modules or aliases to load before it
}

// readKernel reads a package twice: first the list of modules, then the chosen ones with their dependencies.
func readKernel(ctx context.Context, file string, patterns []string) (*kernel, error) {
	k := &kernel{modules: map[string]module{}, content: map[string][]byte{}}
	err := eachFile(ctx, file, func(name string, r io.Reader) error {
		if release, ok := strings.CutPrefix(name, "boot/vmlinuz-"); ok {
			var err error
			k.release = release
			k.image, err = io.ReadAll(r)
			return err
		}
		below, ok := k.below(name)
		if !ok {
			return nil
		}
		data, err := io.ReadAll(r)
		if err == nil {
			k.modules[below], err = readModule(data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(k.image) == 0 || len(k.modules) == 0 {
		return nil, fail.New(fail.Invalid, "the package has no kernel with modules").At(file).Do("give Debian's linux-image-VERSION package, with uncompressed modules")
	}
	chosen := k.choose(patterns)
	return k, eachFile(ctx, file, func(name string, r io.Reader) (err error) {
		if below, ok := k.below(name); ok && chosen[below] {
			k.content[below], err = io.ReadAll(r)
		}
		return err
	})
}

// below returns a module's file below the directory of modules.
func (k *kernel) below(name string) (string, bool) {
	_, rest, ok := strings.Cut(strings.TrimPrefix(name, "usr/"), "lib/modules/")
	if !ok || path.Ext(rest) != ".ko" {
		return "", false
	}
	_, below, ok := strings.Cut(rest, "/")
	return below, ok
}

// eachFile calls f with the regular files of a package.
func eachFile(ctx context.Context, file string, f func(name string, r io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	cmd.Env = tool.Env()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "unpack the kernel's package").Do("apt-get install dpkg")
	}
	err = walk(tar.NewReader(out), f)
	if err != nil {
		cancel()
	} else {
		_, err = io.Copy(io.Discard, out) // the padding of the last block
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("%w: %s", ended, tool.LastLines(stderr.String(), 3))
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "unpack the kernel's package").At(file)
	}
	return nil
}

func walk(t *tar.Reader, f func(name string, r io.Reader) error) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if err := f(strings.TrimPrefix(path.Clean(h.Name), "./"), t); err != nil {
				return err
			}
		}
	}
}

// readModule reads the fields that modinfo(8) prints.
func readModule(data []byte) (m module, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return m, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return m, errors.New("it is no module")
	}
	info, err := s.Data()
	if err != nil {
		return m, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "=")
		switch key {
		case "alias":
			m.aliases = append(m.aliases, value)
		case "depends":
			m.needs = append(m.needs, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
		case "softdep":
			pre, _, _ := strings.Cut(strings.TrimPrefix(value, "pre:"), "post:")
			if strings.HasPrefix(value, "pre:") {
				m.before = append(m.before, strings.Fields(pre)...)
			}
		}
	}
	slices.Sort(m.aliases)
	return m, nil
}
