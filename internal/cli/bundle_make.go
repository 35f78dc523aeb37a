package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// releaseFlag adds --kubernetes, which may be given several times.
func releaseFlag(c *cobra.Command, to *[]string) {
	c.Flags().StringSliceVar(to, "kubernetes", []string{release.Default}, "Kubernetes release: "+strings.Join(release.Versions(), ", ")+" (repeatable)")
}

func (b *bundleCmd) buildCmd() *cobra.Command {
	var versions []string
	var o bundle.BuildOptions
	c := &cobra.Command{
		Use:   "build",
		Short: "Build bundles from source",
		Long: `Compile every program of a release from its pinned sources, which come from the Go module proxy and are verified against
pinned checksums, and make the container images. Two builds with the same Go and the same Debian packages are identical,
byte for byte. An interrupted build continues where it stopped; a repeated one takes seconds.

--addons adds the images of addons: openstack has what clusters on OpenStack need, the cloud controller manager and the
Cinder CSI driver. The bundle shares everything else with the plain one, which is built first.

Needs Go, apt-get and dpkg-deb. With empty caches a build takes 10 to 25 minutes on two cores.`,
		Example: "  naupegos bundle build\n  naupegos bundle build --kubernetes " + release.Default + " --addons openstack",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = progress.Bundle(b.app.Err)
			return b.makeEach(versions, func(lib *bundle.Library, version string) (*bundle.Bundle, error) {
				o.Kubernetes = version
				return lib.Build(cmd.Context(), o)
			})
		},
	}
	releaseFlag(c, &versions)
	c.Flags().StringSliceVar(&o.Addons, "addons", nil, "sets of addons to include: "+strings.Join(bundle.AddonSets(), ", "))
	o.Parallel = 2
	c.Flags().Var((*flags.AtLeastOne)(&o.Parallel), "parallel", "number of components to compile at the same time")
	c.Flags().StringVar(&o.Go, "go", "", "go command (default: from PATH)")
	return c
}

// makeEach makes the bundles of releases one after another, and reports each.
func (b *bundleCmd) makeEach(versions []string, one func(lib *bundle.Library, version string) (*bundle.Bundle, error)) error {
	lib, err := bundles.Library(b.root)
	if err != nil {
		return err
	}
	for _, v := range versions {
		made, err := one(lib, v)
		if err != nil {
			return err
		}
		b.made(made)
	}
	return nil
}

func (b *bundleCmd) made(made *bundle.Bundle) {
	fmt.Fprintf(b.app.Out, "bundle %s (Kubernetes %s, %s, %d MiB)\n", made.ID[:12], made.Manifest.Title(), made.Manifest.Origin, made.Size()>>20)
}

func (b *bundleCmd) pullCmd() *cobra.Command {
	var versions []string
	var o bundle.PullOptions
	c := &cobra.Command{
		Use:   "pull",
		Short: "Make a bundle from the projects' official downloads",
		Long: `Download every program of a release from where its project publishes it, or from mirrors with the same layout, verify it
against the digests that the recipe pins, and make the container images.

A file whose digest the recipe does not pin is refused, unless --unpinned trusts the checksums that are published beside
it; the digests are then printed in the form of a recipe. naupegos apply never uses unpinned files: it builds instead.

Needs Go for a few small programs of Naupegos' own, apt-get and dpkg-deb.`,
		Example: "  naupegos bundle pull --kubernetes " + release.Default + " --unpinned\n  naupegos bundle pull --kubernetes-url https://mirror.example.org/kubernetes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = progress.Bundle(b.app.Err)
			return b.makeEach(versions, func(lib *bundle.Library, version string) (*bundle.Bundle, error) {
				o.Kubernetes = version
				return lib.Pull(cmd.Context(), o)
			})
		},
	}
	releaseFlag(c, &versions)
	d := bundle.OfficialURLs()
	u := &o.BaseURLs
	for _, f := range []struct {
		to          *string
		flag, value string
	}{{&u.Kubernetes, "kubernetes", d.Kubernetes}, {&u.Etcd, "etcd", d.Etcd}, {&u.CNI, "cni", d.CNI}, {&u.Containerd, "containerd", d.Containerd},
		{&u.CoreDNS, "coredns", d.CoreDNS}, {&u.Flannel, "flannel", d.Flannel}, {&u.FlannelAPI, "flannel-api", d.FlannelAPI}} {
		c.Flags().StringVar(f.to, f.flag+"-url", f.value, "root of the "+f.flag+" downloads")
	}
	c.Flags().BoolVar(&o.Unpinned, "unpinned", false, "trust the published checksums of files whose digest the recipe does not pin")
	c.Flags().StringVar(&o.Go, "go", "", "go command (default: from PATH)")
	return c
}

func (b *bundleCmd) exportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "export BUNDLE FILE",
		Short: "Write a bundle to one file, for a site without a network",
		Long:  "Write a bundle to one compressed file (tar.zst), and verify it on the way. If FILE is -, write to standard output.",
		Example: `  naupegos bundle export ` + release.Default + ` kubernetes-` + release.Default + `.tar.zst
  naupegos bundle export ` + release.Default + ` - | ssh site naupegos bundle import -`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			lib, found, err := b.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if args[1] == "-" {
				if terminal.Is(b.app.Out) {
					return fail.New(fail.Invalid, "standard output is a terminal").Do("name a file, or pipe it somewhere")
				}
				return lib.Export(cmd.Context(), found.ID, b.app.Out)
			}
			return wholefile.Write(args[1], func(w io.Writer) error { return lib.Export(cmd.Context(), found.ID, w) })
		},
	}
}

func (b *bundleCmd) importCmd() *cobra.Command {
	var id string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a bundle that export wrote",
		Long: `Import a bundle that naupegos bundle export wrote. Everything is verified before the bundle is registered. If FILE is -,
read from standard input.

The programs in a bundle run as root on every machine of new clusters of its release. --id imports the bundle only if it
has this ID: the one that naupegos bundle inspect prints where the bundle was made.`,
		Example: "  naupegos bundle import kubernetes-" + release.Default + ".tar.zst\n  naupegos bundle import bundle.tar.zst --id \"$(cat bundle.id)\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lib, err := bundles.Library(b.root)
			if err != nil {
				return err
			}
			in := b.app.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fail.Wrap(fail.Invalid, err, "import bundle")
				}
				defer f.Close() // only read
				in = f
			}
			made, err := lib.Import(cmd.Context(), in, id)
			if err != nil {
				return err
			}
			b.made(made)
			return nil
		},
	}
	c.Flags().StringVar(&id, "id", "", "ID that the bundle must have, all 64 digits")
	return c
}

// copyFile prints a file of the bundle that is neither binary nor image.
func copyFile(w io.Writer, b *bundle.Bundle, name string) error {
	a, err := b.File(name)
	if err != nil {
		return err
	}
	f, err := os.Open(b.Path(a.Digest))
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read %s", name).Do("run naupegos bundle verify")
	}
	defer f.Close() // only read
	_, err = io.Copy(w, f)
	return err
}
