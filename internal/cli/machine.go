package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/provider"
)

func newMachineCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "machine",
		Short: "List, start, stop, kill and reboot a cluster's machines",
		Long: `Machines as their provider sees them: switched on or off. What runs on them is shown by naupegos status, and which ones there
should be is changed by naupegos node. naupegos apply starts machines that are off.`,
	}
	c.AddCommand(newMachineListCmd(a))
	for _, p := range powers() {
		c.AddCommand(newPowerCmd(a, p))
	}
	return c
}

// machineRow is one machine in the list.
type machineRow struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Pool    string `json:"pool,omitempty"`
	Address string `json:"address,omitempty"`
	State   string `json:"state"`
	Detail  string `json:"detail,omitempty"`
}

func newMachineListCmd(a *App) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:     "list NAME",
		Short:   "List machines and whether they run",
		Example: "  naupegos machine list demo\n  naupegos machine list demo -o yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				ms, others, err := s.Cluster.MachineList(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(a.Out, machineRows(ms), func(w io.Writer) error { return machineTable(w, machineRows(ms), others) })
			})
		},
	}
	out.bind(c)
	return c
}

func machineRows(ms []provider.Machine) []machineRow {
	rows := []machineRow{}
	for _, m := range ms {
		rows = append(rows, machineRow{m.Name, string(m.Role), m.Pool, m.Address, string(m.State), m.Detail})
	}
	return rows
}

func machineTable(w io.Writer, rows []machineRow, others []string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tROLE\tPOOL\tADDRESS\tSTATE\tDETAIL")
	for _, m := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Role, dash(m.Pool), dash(m.Address), m.State, dash(m.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, o := range others {
		if _, err := fmt.Fprintf(w, "also: %s\n", o); err != nil {
			return err
		}
	}
	return nil
}
