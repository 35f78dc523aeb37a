package bundling

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

func (b *bundleCmd) exportCmd() *cobra.Command {
	var sets []string
	c := &cobra.Command{
		Use:   "export BUNDLE|SET FILE",
		Short: "Write a bundle, sets of images, or both to one file, for a site without a network",
		Long: `Write a bundle to one compressed file (tar.zst), and verify it on the way. If FILE is -, write to standard output.

--set adds a set of images to the file; a set's name in place of the bundle's writes the set alone.`,
		Example: `  naupegos bundle export ` + release.Default + ` kubernetes-` + release.Default + `.tar.zst
  naupegos bundle export ` + release.Default + ` bundle.tar.zst --set site
  naupegos bundle export site images.tar.zst
  naupegos bundle export ` + release.Default + ` - | ssh site naupegos bundle import -`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			lib, id, all, err := b.exported(cmd.Context(), args[0], sets)
			if err != nil {
				return err
			}
			if args[1] == "-" {
				if terminal.Is(b.app.Out) {
					return fail.New(fail.Invalid, "standard output is a terminal").Do("name a file, or pipe it somewhere")
				}
				return lib.Export(cmd.Context(), id, b.app.Out, all...)
			}
			return wholefile.Write(args[1], func(w io.Writer) error { return lib.Export(cmd.Context(), id, w, all...) })
		},
	}
	c.Flags().StringSliceVar(&sets, "set", nil, "set of images to write, too (repeatable)")
	return c
}

// exported returns the ID of the bundle to export, empty for none, and the sets.
func (b *bundleCmd) exported(ctx context.Context, name string, sets []string) (lib *bundle.Library, id string, all []string, err error) {
	s, ok, err := b.set(name)
	if err != nil {
		return nil, "", nil, err
	}
	if lib, err = bundles.Library(b.root); err != nil {
		return nil, "", nil, err
	}
	if ok {
		all = append(all, s.Name)
	} else {
		_, found, err := b.find(ctx, name)
		if err != nil {
			return nil, "", nil, err
		}
		id = found.ID
	}
	for _, set := range sets { // before the file is begun
		if _, err := lib.Set(set); err != nil {
			return nil, "", nil, err
		}
	}
	return lib, id, append(all, sets...), nil
}

func (b *bundleCmd) importCmd() *cobra.Command {
	var ids []string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import bundle and images that export wrote",
		Long: `Import a bundle that naupegos bundle export wrote. Everything is verified before the bundle is registered. If FILE is -,
read from standard input.

The programs in a bundle run as root on every machine of new clusters of its release. --id imports the file only if what
it holds has these IDs, which naupegos bundle inspect prints where it was made. A set of images replaces the set
with the same name.`,
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
			made, err := lib.Import(cmd.Context(), in, ids...)
			if err != nil {
				return err
			}
			if made.Bundle != nil {
				b.made(made.Bundle)
			}
			for _, s := range made.Sets {
				fmt.Fprintf(b.app.Out, "set %s: %s (%d images, %d MiB)\n", s.Name, s.ID[:12], len(s.Images), s.Size>>20)
			}
			for _, ref := range made.Gone {
				fmt.Fprintf(b.app.Out, "  no longer in the set: %s\n", ref)
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&ids, "id", nil, "ID that the bundle or set must have, all 64 digits (repeatable)")
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
