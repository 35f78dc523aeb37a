package netbooting

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/image/discovery"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/userdir"
)

// Cache returns the directory for discovery images and the packages that they are made of.
func Cache() (string, error) {
	dir, err := userdir.Cache()
	return filepath.Join(dir, "discovery"), err
}

// NewImage returns naupegos image discovery, which prints to out.
func NewImage(out io.Writer, agent func() (string, error), progress func() plan.Progress) *cobra.Command {
	var o discovery.Options
	var dir string
	var virtual bool
	var format output.Format
	c := &cobra.Command{
		Use:   "discovery",
		Short: "Make the image that discovers unknown physical machines",
		Long: `Make the discovery image: Debian's newest kernel, and an initramfs with the modules of network cards and disks and with
naupegos-agent as its first process. A machine that boots it reports what it is to the server named in its kernel
arguments, waits until an operator approves it, and asks to be installed. The image has no shell, password or key. The same
kernel and agent give the same bytes, and an image that exists is reused.

naupegos server --netboot-interface makes the image by itself. --dir also writes it to a directory, for a server that
can't make it: pass that directory to its --discovery-image.

The kernel comes from this host's Debian mirror or, with --package, from a file with Debian's linux-image-VERSION package.`,
		Example: "  naupegos image discovery\n  naupegos image discovery --dir ./discovery\n  naupegos image discovery --package linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Cache, err = Cache(); err != nil {
				return err
			}
			if o.Agent, err = agent(); err != nil {
				return err
			}
			o.Newest, o.Progress = true, progress()
			if virtual {
				o.Modules = discovery.Virtual
			}
			image, err := discovery.Build(cmd.Context(), o)
			if err != nil {
				return err
			}
			if dir != "" {
				if err := image.CopyTo(dir); err != nil {
					return err
				}
				image.Dir = dir
			}
			return format.Print(out, image, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "discovery image %s: kernel %s (%.1f MiB), initramfs with %d modules (%.1f MiB), in %s\n",
					image.ID, image.Info.Kernel, mib(image.KernelSize), image.Info.Modules, mib(image.InitrdSize), image.Dir)
				return err
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "also write the image's files to this directory")
	c.Flags().StringVar(&o.Package, "package", "", "file with Debian's kernel package (default: apt downloads the newest)")
	c.Flags().BoolVar(&virtual, "virtual", false, "include only the modules for emulated machines: a third of the size")
	format.Bind(c)
	return c
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
