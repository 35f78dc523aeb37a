package netbooting

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/tool"
)

// imported is the result of naupegos server import-matchbox, or its dry run.
type imported struct {
	*boot.Import
	Directory string `json:"directory"`
	Done      bool   `json:"done"`
}

// NewImport returns naupegos server import-matchbox, which prints to out and imports into the state directory.
func NewImport(out io.Writer, stateDir func() (string, error)) *cobra.Command {
	var assets string
	var replace, dry bool
	var format output.Format
	c := &cobra.Command{
		Use:   "import-matchbox DIR",
		Short: "Import the groups, profiles, templates and assets of a matchbox",
		Long: `Copy the data directory of a matchbox (its -data-path) into boot/ of the state directory. From then on naupegos server
gives the same answers to the same requests: /boot.ipxe, /ipxe, /grub, /ignition, /cloud, /generic, /metadata and
/assets. A running server picks up what was imported. Change DHCP or the iPXE scripts so that machines ask it, then stop
the matchbox.

DIR is only read. Files that neither matchbox nor naupegos could serve are reported. If a file of the same name exists
with other contents, nothing is copied without --replace. If the import is interrupted, run the same command again.`,
		Example: "  naupegos server import-matchbox /var/lib/matchbox --dry-run\n  naupegos server import-matchbox /var/lib/matchbox\n  naupegos server import-matchbox ./matchbox --assets /srv/assets",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			plan, err := boot.PlanImport(args[0], assets, Dir(dir))
			if err != nil {
				return err
			}
			if !dry {
				if err := plan.Run(cmd.Context(), replace); err != nil {
					return err
				}
			}
			did := imported{plan, Dir(dir), !dry}
			return format.Print(out, did, did.print)
		},
	}
	c.Flags().StringVar(&assets, "assets", "", "the matchbox's -assets-path (default assets/ in DIR)")
	c.Flags().BoolVar(&replace, "replace", false, "overwrite files that differ")
	c.Flags().BoolVar(&dry, "dry-run", false, "only print what would be copied")
	format.Bind(c)
	return c
}

// print prints the result for people.
func (i imported) print(w io.Writer) error {
	verb := "Imported"
	if !i.Done {
		verb = "Would import"
	}
	fmt.Fprintf(w, "%s %d groups and %d profiles into %s: %d new files, %d that differ, %d the same.\n", verb, i.Groups, i.Profiles, i.Directory, len(i.New), len(i.Changed), i.Same)
	if !i.Done {
		for _, f := range i.Changed {
			fmt.Fprintf(w, "  differs: %s\n", tool.Printable(f))
		}
	}
	for _, p := range i.Problems {
		fmt.Fprintf(w, "  no answer: %s\n", tool.Printable(p))
	}
	return nil
}
