package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/release"
)

// newImageCmd returns the verbs on machines' disk images.
func newImageCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Make disk images with a bundle inside, and upload them to a cloud",
		Long: `A machine booted from an image with its cluster's bundle inside gets nothing of the bundle over the network. Any Debian or Ubuntu
image will do as well: what a machine lacks is sent to it when it is configured.`,
	}
	c.AddCommand(newImageBuildCmd(a), newImageUploadCmd(a))
	return c
}

// stoppable returns a context that ends with Ctrl-C or SIGTERM, so that what is half made is removed. A second one ends the program.
func stoppable(c *cobra.Command) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func newImageBuildCmd(a *App) *cobra.Command {
	var o image.Options
	var kubernetes, root string
	var addons []string
	c := &cobra.Command{
		Use:   "build",
		Short: "Make a bootable disk image with a bundle inside",
		Long: `Make a bootable image of Debian 12 with kernel, cloud-init, everything that machines need, a bundle and the agent inside. It boots
with BIOS and UEFI, secure boot included, takes user-data from a config drive, the metadata service or a NoCloud seed, grows its file
system to the disk, and talks on the serial console. It has no password, no SSH key and no machine ID. Beside FILE lies FILE.json, which
describes it: image upload reads it.

The bundle comes from the library, and is made where it is not there. Identifiers on the disk follow from bundle and agent; packages
are the newest of Debian 12, so two builds are alike but not identical.

Needs root, and mmdebstrap, e2fsprogs, fdisk, dosfstools, mtools and qemu-utils. No block device, no mount, no virtualisation.`,
		Example: "  naupegos image build --file debian-12-k8s.qcow2\n  naupegos image build --kubernetes " + release.Default + " --format raw --file disk.raw",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := stoppable(cmd)
			defer stop()
			if err := o.Check(); err != nil {
				return err
			}
			b := &bundleCmd{app: a, root: root}
			lib, err := b.library()
			if err != nil {
				return err
			}
			if o.Agent, err = findAgent(); err != nil {
				return err
			}
			o.Bundle, err = lib.Ensure(ctx, kubernetes, bundle.EnsureOptions{Addons: addons, Progress: bundleProgress(a.Err)})
			if err != nil {
				return err
			}
			o.Version, o.Progress = version, &statusLines{w: a.Err}
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
	c.Flags().StringSliceVar(&addons, "addons", []string{bundle.AddonOpenStack}, `sets of addons that the bundle has as well; "" for none`)
	c.Flags().StringVar(&root, "library", "", "directory of bundles (default $XDG_CACHE_HOME/naupegos/bundles)")
	c.Flags().StringVar(&o.Output, "file", "", "the image's file (default naupegos-debian-12-RELEASE.FORMAT)")
	c.Flags().StringVar(&o.Format, "format", image.QCOW2, "qcow2 (compressed) or raw (sparse; for clouds that keep images in Ceph)")
	c.Flags().IntVar(&o.SizeGiB, "size", 0, "GiB of the disk (default: as small as possible; machines grow it)")
	return c
}
