package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

func newStatusCmd(a *App) *cobra.Command {
	var f statusFlags
	var within time.Duration
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show clusters, or one cluster's machines, nodes, etcd and certificates",
		Long: `Without a name, list the clusters in the store with their health. With one, look at its machines, the Kubernetes API and etcd now.
--watch prints the status again each time it changes, until you stop it. --wait waits until the cluster is healthy.

Exit status: 0 where the cluster is healthy, 5 where something is missing, down, not as the document says, or due for renewal.`,
		Example: "  naupegos status\n  naupegos status demo\n  naupegos status demo --watch\n  naupegos status demo --wait=5m\n  naupegos status demo -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.wait < 0:
				return fail.New(fail.Invalid, "--wait=%s is negative", f.wait)
			case len(args) == 1:
				return a.showStatus(cmd.Context(), args[0], &f)
			case f.watch || f.wait > 0:
				return fail.New(fail.Invalid, "--watch and --wait look at one cluster").Do("name it: naupegos status NAME --wait")
			}
			return a.listClusters(cmd.Context(), &f.out, within)
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "print the status again each time it changes")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait until the cluster is healthy, for as long as this (10m where no time is given)")
	c.Flags().Lookup("wait").NoOptDefVal = "10m"
	c.Flags().DurationVar(&within, "timeout", 15*time.Second, "without NAME: how long clusters have to show their health")
	f.out.bind(c)
	return c
}

func statusTable(w io.Writer, s *cluster.Status) error {
	fmt.Fprintf(w, "%s\n  endpoint  %s\n  API       %s\n  etcd      %s\n", s.Summary(), s.Endpoint, s.API, s.Etcd)
	if s.BundleNote != "" {
		fmt.Fprintf(w, "  bundle    %s\n", s.BundleNote)
	}
	if !s.Expires.IsZero() {
		fmt.Fprintf(w, "  next certificate to expire  %s (%s)\n", s.Expires.Format(time.DateOnly), s.ExpiresOf)
	}
	if n := len(s.Due); n > 0 {
		fmt.Fprintf(w, "  due for renewal             %d, the first is %s: naupegos apply renews them\n", n, s.Due[0])
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "MACHINE\tROLE\tADDRESS\tSTATE\tCONFIGURATION\tNODE\tVERSION\tETCD")
	var long footnotes
	for _, m := range s.Machines {
		cell := func(text string) string { return long.cell(m.Name, text) }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Role, m.Address, cell(m.State), cell(m.Config), cell(m.Node), cell(m.Version), cell(m.Etcd))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return long.write(w)
}

// cellWidth is how many characters a cell of a table may have; an error of a machine may have hundreds, in several lines.
const cellWidth = 48

// footnotes are what did not fit into a table's cells.
type footnotes []string

// cell returns text where it fits, else its beginning: the whole becomes a footnote.
func (f *footnotes) cell(row, text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= cellWidth {
		return string(line)
	}
	if note := row + ": " + strings.ReplaceAll(strings.TrimSpace(tool.Printable(text)), "\n", "\n    "); !slices.Contains(*f, note) {
		*f = append(*f, note)
	}
	return string(line[:cellWidth-1]) + "…"
}

// write puts the footnotes below the table.
func (f *footnotes) write(w io.Writer) error {
	for i, note := range *f {
		before := ""
		if i == 0 {
			before = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", before, note); err != nil {
			return err
		}
	}
	return nil
}
