package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
)

func newNodeCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "List, add, remove, replace, cordon and drain a cluster's nodes",
		Long: `Machines and the nodes on them. add and remove change the number that the document wants and then do what apply does; the
document stays the only place where intent is written.`,
	}
	c.AddCommand(newNodeListCmd(a), newNodeAddCmd(a), newNodeRemoveCmd(a), newNodeReplaceCmd(a),
		newNodeCordonCmd(a), newNodeUncordonCmd(a), newNodeDrainCmd(a))
	return c
}

func newNodeListCmd(a *App) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:     "list NAME",
		Short:   "List machines and nodes",
		Long:    `List the cluster's machines with the nodes on them, and nodes that somebody else joined.`,
		Example: "  naupegos node list demo\n  naupegos node list demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				list, err := s.Cluster.NodeList(cmd.Context())
				if err != nil {
					return err
				}
				if list.Problem != "" {
					fmt.Fprintf(a.Err, "naupegos: nodes can't be told: %s\n", list.Problem)
				}
				return out.print(a.Out, list.Nodes, func(w io.Writer) error { return nodeTable(w, list.Nodes, time.Now()) })
			})
		},
	}
	out.bind(c)
	return c
}

func nodeTable(w io.Writer, nodes []cluster.NodeRow, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tROLE\tPOOL\tADDRESS\tSTATE\tNODE\tVERSION\tAGE")
	for _, n := range nodes {
		age := "-"
		if !n.Created.IsZero() {
			age = shortAge(now.Sub(n.Created))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, dash(n.Role), dash(n.Pool), dash(n.Address), dash(n.State), dash(n.Node), dash(n.Version), age)
	}
	return t.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shortAge renders an age by its largest unit: 45s, 12m, 7h, 90d.
func shortAge(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
