package netbooting

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image/discovery"
	"github.com/naupegos/naupegos/internal/plan"
)

// Cache is where discovery images and the packages that they are made of are kept.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "find the directory of caches").Do("set $HOME or $XDG_CACHE_HOME")
	}
	return filepath.Join(dir, "naupegos", "discovery"), nil
}

// NewImage returns naupegos image discovery, which prints to out.
func NewImage(out io.Writer, agent func() (string, error), progress func() plan.Progress) *cobra.Command {
	var o discovery.Options
	var dir string
	var virtual bool
	var format output.Format
	c := &cobra.Command{
		Use:   "discovery",
		Short: "Make what machines boot over the network that nobody knows yet",
		Long: `Make the discovery image: Debian's newest kernel as it is, and an initramfs with the modules of network cards and disks and with naupegos-agent as
its first process. A machine that boots it says to the server that its kernel's arguments name what it is, waits until somebody approves it, and asks
to be installed. The image has no shell, no password and no key. The same kernel and agent make the same bytes, and what was made before is kept.

naupegos server --netboot-interface makes it by itself. With --dir the image is written there, for a server that can't make it: its
--discovery-image takes that directory.

The kernel comes from this host's mirror of Debian, or, with --package, from a file with Debian's linux-image-VERSION package.`,
		Example: "  naupegos image discovery\n  naupegos image discovery --dir ./discovery\n  naupegos image discovery --package linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
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
			image, err := discovery.Build(ctx, o)
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
	c.Flags().StringVar(&dir, "dir", "", "write the image's files to this directory, too")
	c.Flags().StringVar(&o.Package, "package", "", "file with Debian's package of a kernel (default: apt downloads the newest)")
	c.Flags().BoolVar(&virtual, "virtual", false, "only the modules of emulated computers: a third of the size")
	format.Bind(c)
	return c
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
