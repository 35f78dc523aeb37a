package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/release"
)

// bundleCmd holds the settings that the verbs on bundles share.
type bundleCmd struct {
	app  *App
	root string // directory of the library; empty: the default
}

// newBundleCmd returns the verbs on bundles.
func newBundleCmd(a *App) *cobra.Command {
	b := &bundleCmd{app: a}
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Build, download, check and transfer bundles: Kubernetes releases with all a cluster needs",
		Long: `A bundle is one Kubernetes release with every program and container image that a cluster needs. Clusters install from a
bundle alone: machines need neither a registry nor the internet. naupegos apply gets the bundle that it needs; use these
commands to prepare or check one, or to carry it to a site without a network.

BUNDLE is an ID, the first digits of one, or a Kubernetes version for the newest bundle of it (` + release.Default + `, or
` + release.Default + `+openstack for the one with that set of addons).`,
		Example: `  naupegos bundle build --kubernetes ` + release.Default + `
  naupegos bundle list
  naupegos bundle export ` + release.Default + ` bundle.tar.zst`,
	}
	c.PersistentFlags().StringVar(&b.root, "library", "", "directory of bundles (default $XDG_CACHE_HOME/naupegos/bundles)")
	c.AddCommand(b.buildCmd(), b.pullCmd(), b.listCmd(), b.inspectCmd(), b.verifyCmd(), b.exportCmd(), b.importCmd(), b.removeCmd())
	return c
}

// find returns the library and the bundle that the user named by ID or version.
func (b *bundleCmd) find(ctx context.Context, name string) (*bundle.Library, *bundle.Bundle, error) {
	lib, err := bundles.Library(b.root)
	if err != nil {
		return nil, nil, err
	}
	var found *bundle.Bundle
	if strings.HasPrefix(name, "v") {
		title := strings.Split(name, "+")
		found, err = lib.Find(ctx, title[0], title[1:]...)
	} else {
		found, err = lib.Get(ctx, name)
	}
	return lib, found, err
}

func (b *bundleCmd) listCmd() *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the bundles in the library",
		Example: "  naupegos bundle list\n  naupegos bundle list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lib, err := bundles.Library(b.root)
			if err != nil {
				return err
			}
			all, err := lib.List(cmd.Context())
			if err != nil {
				return err
			}
			if all == nil {
				all = []*bundle.Bundle{}
			}
			return out.Print(b.app.Out, all, func(w io.Writer) error { return bundleTable(w, all) })
		},
	}
	out.Bind(c)
	return c
}

func bundleTable(w io.Writer, all []*bundle.Bundle) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No bundles. naupegos bundle build makes one, and apply gets one by itself.")
		return err
	}
	t := output.NewTable(w)
	t.Head("ID\tKUBERNETES\tPLATFORM\tORIGIN\tSIZE\tADDED")
	for _, b := range all {
		t.Row("%s\t%s\t%s\t%s\t%d MiB\t%s\n", b.ID[:12], b.Manifest.Title(), b.Manifest.Platform, b.Manifest.Origin,
			b.Size()>>20, b.Added.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func (b *bundleCmd) inspectCmd() *cobra.Command {
	var out output.Format
	var sbom bool
	c := &cobra.Command{
		Use:     "inspect BUNDLE",
		Short:   "Show what is in a bundle",
		Example: "  naupegos bundle inspect " + release.Default + "\n  naupegos bundle inspect " + release.Default + " --sbom > sbom.cdx.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, found, err := b.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if sbom {
				return copyFile(b.app.Out, found, bundle.SBOMName)
			}
			return out.Print(b.app.Out, found, func(w io.Writer) error { return inspectTable(w, found) })
		},
	}
	c.Flags().BoolVar(&sbom, "sbom", false, "print the bill of materials (CycloneDX JSON)")
	out.Bind(c)
	return c
}

func inspectTable(w io.Writer, b *bundle.Bundle) error {
	m := b.Manifest
	t := output.NewTable(w)
	t.Row("ID\t%s\nKubernetes\t%s\nPlatform\t%s\nOrigin\t%s\nAdded\t%s\n", b.ID, m.Title(), m.Platform, m.Origin, b.Added.Local().Format(time.DateTime))
	t.Head("\nCOMPONENT\tVERSION\tSOURCE")
	for _, c := range m.Components {
		t.Row("%s\t%s\t%s\n", c.Name, c.Version, c.Source)
	}
	t.Head("\nBINARY\tSIZE\tDIGEST")
	for _, a := range m.Binaries {
		t.Row("%s\t%.1f MiB\t%s\n", a.Name, float64(a.Size)/(1<<20), a.Digest)
	}
	t.Head("\nIMAGE\tSIZE\tROLES\tREFERENCE")
	for _, i := range m.Images {
		t.Row("%s\t%.1f MiB\t%s\t%s\n", i.Name, float64(i.Archive.Size)/(1<<20), strings.Join(i.Roles, ","), i.Ref)
	}
	return t.Flush()
}

func (b *bundleCmd) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "verify BUNDLE",
		Short:   "Compare every file of a bundle with the digest in its manifest",
		Example: "  naupegos bundle verify " + release.Default,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lib, found, err := b.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := lib.Verify(cmd.Context(), found.ID); err != nil {
				return err
			}
			_, err = fmt.Fprintf(b.app.Out, "bundle %s (Kubernetes %s) is whole\n", found.ID[:12], found.Manifest.Title())
			return err
		},
	}
}

func (b *bundleCmd) removeCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove BUNDLE...",
		Aliases: []string{"rm"},
		Short:   "Remove bundles from the library",
		Long:    "Remove bundles from the library, with the files that no other bundle uses. Clusters that were built from them keep running.",
		Example: "  naupegos bundle remove 633b2a9d4fc3",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				id := name
				lib, err := bundles.Library(b.root)
				if err != nil {
					return err
				}
				if strings.HasPrefix(name, "v") {
					_, found, err := b.find(cmd.Context(), name)
					if err != nil {
						return err
					}
					id = found.ID
				}
				if err := lib.Remove(cmd.Context(), id); err != nil {
					return err
				}
				fmt.Fprintf(b.app.Out, "removed bundle %s\n", name)
			}
			return nil
		},
	}
}
