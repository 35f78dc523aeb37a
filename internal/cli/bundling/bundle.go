// Package bundling has the verbs on bundles: build, pull and check them, carry them, and add a site's own images.
//
// How bundles are made is internal/bundle's business.
package bundling

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
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// Streams are where the verbs read and write.
type Streams struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // progress
}

// bundleCmd holds the settings that the verbs on bundles share.
type bundleCmd struct {
	app  Streams
	root string // directory of the library; empty: the default
}

// New returns the verbs on bundles.
func New(s Streams) *cobra.Command {
	b := &bundleCmd{app: s}
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Build, download, check and transfer bundles: Kubernetes releases with all a cluster needs",
		Long: `A bundle is one Kubernetes release with every program and container image that a cluster needs. Clusters install from a
bundle alone: machines need neither a registry nor the internet. naupegos apply gets the bundle that it needs; use these
commands to prepare or check one, or to carry it to a site without a network.

BUNDLE is an ID, the first digits of one, or a Kubernetes version for the newest bundle of it (` + release.Default + `, or
` + release.Default + `+openstack for the one with that set of addons).

A library also holds sets of a site's own images, which naupegos bundle add fetches. A cluster with spec.registry serves
them to its machines.`,
		Example: `  naupegos bundle build --kubernetes ` + release.Default + `
  naupegos bundle list
  naupegos bundle export ` + release.Default + ` bundle.tar.zst`,
	}
	c.PersistentFlags().StringVar(&b.root, "library", "", "directory of bundles (default $XDG_CACHE_HOME/naupegos/bundles)")
	c.AddCommand(b.buildCmd(), b.pullCmd(), b.addCmd(), b.listCmd(), b.inspectCmd(), b.verifyCmd(), b.exportCmd(), b.importCmd(), b.removeCmd())
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
		Short:   "List the bundles and the sets of images in the library",
		Example: "  naupegos bundle list\n  naupegos bundle list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lib, err := bundles.Library(b.root)
			if err != nil {
				return err
			}
			var all Listed
			if all.Items, err = lib.List(cmd.Context()); err != nil {
				return err
			}
			if all.Sets, err = lib.Sets(cmd.Context()); err != nil {
				return err
			}
			if all.Items == nil {
				all.Items = []*bundle.Bundle{}
			}
			return out.Print(b.app.Out, all, func(w io.Writer) error { return all.table(w) })
		},
	}
	out.Bind(c)
	return c
}

// Listed describes the content of a library.
type Listed struct {
	Items []*bundle.Bundle  `json:"items"` // the bundles
	Sets  []bundle.AddedSet `json:"sets"`  // the sets of images, sorted by name
}

func (l Listed) table(w io.Writer) error {
	if len(l.Items) == 0 {
		if _, err := fmt.Fprintln(w, "No bundles. naupegos bundle build makes one, and apply gets one by itself."); err != nil {
			return err
		}
	}
	t := output.NewTable(w)
	if len(l.Items) > 0 {
		t.Head("ID\tKUBERNETES\tPLATFORM\tORIGIN\tSIZE\tADDED")
	}
	for _, b := range l.Items {
		t.Row("%s\t%s\t%s\t%s\t%d MiB\t%s\n", b.ID[:12], b.Manifest.Title(), b.Manifest.Platform, b.Manifest.Origin,
			b.Size()>>20, b.Added.Local().Format(time.DateTime))
	}
	if len(l.Sets) > 0 {
		t.Head("\nSET\tID\tIMAGES\tSIZE\tCHANGED")
	}
	for _, s := range l.Sets {
		t.Row("%s\t%s\t%d\t%d MiB\t%s\n", s.Name, s.ID[:12], len(s.Images), s.Size>>20, s.Changed.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func (b *bundleCmd) inspectCmd() *cobra.Command {
	var out output.Format
	var sbom bool
	c := &cobra.Command{
		Use:     "inspect BUNDLE|SET",
		Short:   "Show what is in a bundle, or in a set of images",
		Example: "  naupegos bundle inspect " + release.Default + "\n  naupegos bundle inspect " + release.Default + " --sbom > sbom.cdx.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s, ok, err := b.set(args[0]); ok || err != nil {
				if err == nil && sbom {
					err = fail.New(fail.Invalid, "%s is a set of images: only bundles have a bill of materials", args[0])
				}
				if err != nil {
					return err
				}
				return out.Print(b.app.Out, s, func(w io.Writer) error { return setTable(w, s) })
			}
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

func setTable(w io.Writer, s bundle.AddedSet) error {
	t := output.NewTable(w)
	t.Row("SET\t%s\nID\t%s\nChanged\t%s\n", s.Name, s.ID, s.Changed.Local().Format(time.DateTime))
	t.Head("\nIMAGE\tSIZE\tPLATFORMS\tDIGEST")
	for _, i := range s.Images {
		var size int64
		for _, b := range i.Blobs {
			size += b.Size
		}
		name := i.Name
		if i.Tag != "" {
			name += ":" + i.Tag
		}
		t.Row("%s\t%.1f MiB\t%s\t%s\n", name, float64(size)/(1<<20), strings.Join(i.Platforms, ","), i.Digest)
	}
	return t.Flush()
}

// set returns the set that the user named; ok is false if the name is that of a bundle: a version or an ID.
func (b *bundleCmd) set(name string) (s bundle.AddedSet, ok bool, err error) {
	if strings.HasPrefix(name, "v") && strings.Contains(name, ".") || bundle.CheckSetName(name) != nil {
		return s, false, nil
	}
	lib, err := bundles.Library(b.root)
	if err != nil {
		return s, false, err
	}
	s, err = lib.Set(name)
	if fail.KindOf(err) == fail.NotFound && strings.Trim(name, "0123456789abcdef") == "" {
		return s, false, nil
	}
	return s, err == nil, err
}

func (b *bundleCmd) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "verify BUNDLE|SET",
		Short:   "Compare every file of a bundle or set with its digest",
		Example: "  naupegos bundle verify " + release.Default,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s, ok, err := b.set(args[0]); ok || err != nil {
				return b.verifySet(cmd.Context(), s, err)
			}
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

func (b *bundleCmd) verifySet(ctx context.Context, s bundle.AddedSet, err error) error {
	if err != nil {
		return err
	}
	lib, err := bundles.Library(b.root)
	if err != nil {
		return err
	}
	if err := lib.VerifySet(ctx, s.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.app.Out, "set %s (%d images) is whole\n", s.Name, len(s.Images))
	return err
}

func (b *bundleCmd) removeCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove BUNDLE|SET...",
		Aliases: []string{"rm"},
		Short:   "Remove bundles and sets of images from the library",
		Long: `Remove bundles and sets of images from the library, with the files that nothing else uses. Clusters that were built from
them keep running, and registries inside clusters keep serving the images that they have.`,
		Example: "  naupegos bundle remove 633b2a9d4fc3\n  naupegos bundle remove site",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				id := name
				lib, err := bundles.Library(b.root)
				if err != nil {
					return err
				}
				if s, ok, err := b.set(name); ok {
					if err := lib.RemoveSet(cmd.Context(), s.Name); err != nil {
						return err
					}
					fmt.Fprintf(b.app.Out, "removed set %s\n", name)
					continue
				} else if err != nil {
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
