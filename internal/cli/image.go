package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack"
	"github.com/naupegos/naupegos/internal/provider/openstack/images"
	"github.com/naupegos/naupegos/internal/release"
)

// newImageCmd returns the verbs on machines' disk images.
func newImageCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Make machine images, and upload them to a cloud",
		Long: `Make disk images with a bundle inside for OpenStack, and the images that physical machines are discovered and installed
with. A machine that boots from an image with its cluster's bundle gets nothing of the bundle over the network. Any Debian
or Ubuntu image works as well: what a machine lacks is sent to it when it is configured.`,
		Example: "  naupegos image build --file debian-12-k8s.qcow2\n  naupegos image upload debian-12-k8s.qcow2 --cloud mycloud",
	}
	c.AddCommand(newImageBuildCmd(a), newImageSystemCmd(a), newImageUploadCmd(a),
		netbooting.NewImage(a.Out, findAgent, func() plan.Progress { return progress.NewLines(a.Err) }))
	return c
}

func newImageBuildCmd(a *App) *cobra.Command {
	var o image.Options
	var kubernetes, root string
	var addons []string
	c := &cobra.Command{
		Use:   "build",
		Short: "Make a bootable disk image with a bundle inside",
		Long: `Make a bootable image of Debian 12 with a kernel, cloud-init, everything that machines need, a bundle and the agent. It
boots with BIOS and UEFI, secure boot included; takes user-data from a config drive, the metadata service or a NoCloud
seed; grows its file system to the disk; and uses the serial console. It has no password, no SSH key and no machine ID.
FILE.json, written beside FILE, describes the image; naupegos image upload reads it.

The bundle is taken from the library, or made if it is not there. Identifiers on the disk are derived from the bundle and
the agent; packages are Debian 12's newest, so two builds are alike but not identical.

Needs root, and mmdebstrap, e2fsprogs, fdisk, dosfstools, mtools and qemu-utils. Needs no block device, mount or
virtualisation.`,
		Example: "  naupegos image build --file debian-12-k8s.qcow2\n  naupegos image build --kubernetes " + release.Default + " --format raw --file disk.raw",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := o.Check(); err != nil {
				return err
			}
			lib, err := bundles.Library(root)
			if err != nil {
				return err
			}
			if o.Agent, err = findAgent(); err != nil {
				return err
			}
			o.Bundle, err = lib.Ensure(ctx, kubernetes, bundle.EnsureOptions{Addons: addons, Progress: progress.Bundle(a.Err)})
			if err != nil {
				return err
			}
			o.Version, o.Progress = version, progress.NewLines(a.Err)
			if o.Output == "" {
				o.Output = fmt.Sprintf("naupegos-debian-12-%s.%s", kubernetes, o.Format)
			}
			info, err := image.Build(ctx, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "image %s: Kubernetes %s, bundle %s, %d MiB, for disks of %d GiB and more\n",
				o.Output, info.Kubernetes, info.Bundle[:12], info.Size>>20, info.DiskGiB)
			return err
		},
	}
	c.Flags().StringVar(&kubernetes, "kubernetes", release.Default, "Kubernetes release of the bundle")
	c.Flags().StringSliceVar(&addons, "addons", []string{bundle.AddonOpenStack}, `sets of addons in the bundle; "" for none`)
	c.Flags().StringVar(&root, "library", "", "directory of bundles (default $XDG_CACHE_HOME/naupegos/bundles)")
	c.Flags().StringVar(&o.Output, "file", "", "file of the image (default naupegos-debian-12-RELEASE.FORMAT)")
	c.Flags().StringVar(&o.Format, "format", image.QCOW2, "qcow2 (compressed) or raw (sparse; for clouds that keep images in Ceph)")
	c.Flags().IntVar(&o.SizeGiB, "size", 0, "size of the disk in GiB (default: as small as possible; machines grow it)")
	return c
}

func newImageSystemCmd(a *App) *cobra.Command {
	var o image.Options
	var kubernetes, root string
	c := &cobra.Command{
		Use:   "system",
		Short: "Make the system image that physical machines are installed with",
		Long: `Make the system image that the server installs on physical machines: Debian 12 with the kernel for real hardware,
everything that machines need, a bundle, and the agent as a service. It fills one of the two slots on an installed
machine's disk; boot loaders for BIOS and UEFI (secure boot included) come with it.

The image is written to a directory of its own below --out, from which naupegos server serves it: boot/assets/systems in
the server's state directory. naupegos machine install sets which machine gets it. Needs what naupegos image build needs.`,
		Example: "  naupegos image system\n  naupegos image system --kubernetes " + release.Default + " --out /var/lib/naupegos/server/boot/assets/systems",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			o.Format = image.System
			if err := o.Check(); err != nil {
				return err
			}
			if o.Output == "" {
				dir, err := a.ownDir()
				if err != nil {
					return err
				}
				o.Output = image.SystemsDir(dir)
			}
			lib, err := bundles.Library(root)
			if err != nil {
				return err
			}
			if o.Agent, err = findAgent(); err != nil {
				return err
			}
			if o.Bundle, err = lib.Ensure(ctx, kubernetes, bundle.EnsureOptions{Progress: progress.Bundle(a.Err)}); err != nil {
				return err
			}
			o.Version, o.Progress = version, progress.NewLines(a.Err)
			made, err := image.BuildSystem(ctx, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "system %s: Kubernetes %s, %d MiB to fetch, %d MiB on disk\n", made.ID, made.Kubernetes, made.Root.Size>>20, made.Root.RawSize>>20)
			return err
		},
	}
	c.Flags().StringVar(&kubernetes, "kubernetes", release.Default, "Kubernetes release of the bundle")
	c.Flags().StringVar(&root, "library", "", "directory of bundles (default $XDG_CACHE_HOME/naupegos/bundles)")
	c.Flags().StringVar(&o.Output, "out", "", "directory of system images (default boot/assets/systems of the state directory)")
	c.Flags().BoolVar(&o.Virtual, "virtual", false, "for emulated machines only: Debian's kernel for clouds, which has no drivers for hardware")
	return c
}

func newImageUploadCmd(a *App) *cobra.Command {
	var o images.Options
	var name string
	var properties []string
	var out output.Format
	c := &cobra.Command{
		Use:   "upload FILE",
		Short: "Upload an image that image build made to an OpenStack cloud",
		Long: `Upload an image with its properties to the cloud's image service, private to the project. If the image exists already,
known by its name and the file's SHA-512, only properties that differ are changed. An interrupted upload removes its
incomplete image, or else the next run completes it. An image of the same name with other contents is never touched.

Properties: os_distro, os_version, os_type, architecture, hw_disk_bus and hw_vif_model (virtio), hw_rng_model,
hw_qemu_guest_agent (no), and naupegos_bundle, naupegos_kubernetes, naupegos_version, naupegos_sha512, which describe the
contents. min_disk is the size of the image's disk.`,
		Example: `  naupegos image upload debian-12-k8s.qcow2 --cloud mycloud
  naupegos image upload disk.raw --cloud mycloud --name debian-12-k8s --property hw_disk_bus=scsi --property hw_scsi_model=virtio-scsi`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			lines := progress.NewLines(a.Err)
			want, err := describeImage(ctx, args[0], lines)
			if err != nil {
				return err
			}
			if want.Name = name; name == "" {
				want.Name = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
			}
			if err := addProperties(want.Properties, properties); err != nil {
				return err
			}
			service, err := images.Open(ctx, o)
			if err != nil {
				return err
			}
			made, err := service.Upload(ctx, want, lines)
			if err != nil {
				return err
			}
			return out.Print(a.Out, made, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "image %s (%s): %s\n", made.Name, made.ID, imageDone[made.Done])
				return err
			})
		},
	}
	c.Flags().StringVar(&o.Cloud, "cloud", "", "cloud of your clouds.yaml (default $OS_CLOUD, else the OS_* variables)")
	c.Flags().StringVar(&o.Region, "region", "", "region, if the cloud has several")
	c.Flags().StringVar(&name, "name", "", "name of the image (default: the file's, without its extension)")
	c.Flags().StringArrayVar(&properties, "property", nil, "additional property, KEY=VALUE (repeatable)")
	c.Flags().DurationVar(&o.Timeout, "timeout", time.Hour, "time limit of the upload")
	out.Bind(c)
	return c
}

var imageDone = map[string]string{
	images.Uploaded: "uploaded", images.Changed: "its properties were changed", images.Unchanged: "nothing to do",
}

// describeImage reads the description beside an image's file, and checks that it belongs to this file.
func describeImage(ctx context.Context, file string, lines *progress.Lines) (images.Image, error) {
	info, err := image.ReadInfo(file)
	if err != nil {
		return images.Image{}, err
	}
	size, sum, err := image.Checksum(ctx, file, func(n int64) { lines.Status("reading the file: %d of %d MiB", n>>20, info.Size>>20) })
	if err != nil {
		return images.Image{}, err
	}
	if size != info.Size || sum != info.SHA512 {
		return images.Image{}, fail.New(fail.Invalid, "the file is not the one that %s.json describes", filepath.Base(file)).At(file).
			Do("it was changed or damaged: copy both again, or build the image again")
	}
	return images.Image{
		File: file, Format: info.Format, Size: size, SHA512: sum, MinDiskGiB: info.DiskGiB,
		Properties: map[string]string{
			"os_type": "linux", "os_distro": info.Distribution, "os_version": info.Release, "architecture": machineName(info.Architecture),
			"hw_disk_bus": "virtio", "hw_vif_model": "virtio", "hw_rng_model": "virtio", "hw_qemu_guest_agent": "no",
			openstack.PropertyBundle: info.Bundle, openstack.PropertyKubernetes: info.Kubernetes, imageProperty + "version": info.Version,
		},
	}, nil
}

// imageProperty is the prefix of Naupegos' properties.
const imageProperty = "naupegos_"

// machineName returns OpenStack's name of an architecture.
func machineName(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return goarch
}

// addProperties adds the user's properties, which override ours.
func addProperties(to map[string]string, extra []string) error {
	more := map[string]string{}
	for _, p := range extra {
		key, value, ok := strings.Cut(p, "=")
		switch {
		case !ok || key == "":
			return fail.New(fail.Invalid, "--property %s", strconv.Quote(p)).Do("write KEY=VALUE")
		case strings.HasPrefix(key, imageProperty):
			return fail.New(fail.Invalid, "--property %s", key).Do("properties that begin with %s say what is in the image; they come from the file", imageProperty)
		}
		more[key] = value
	}
	maps.Copy(to, more)
	return nil
}
