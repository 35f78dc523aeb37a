package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
)

func newStatusCmd(a *App) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show clusters, or one cluster's machines, nodes, etcd and certificates",
		Long: `Without a name, list the clusters in the store. With one, look at its machines, the Kubernetes API and etcd now.

Exit status: 0 where the cluster is healthy, 5 where something is missing, down or not as the document says.`,
		Example: "  naupegos status\n  naupegos status demo\n  naupegos status demo -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listClusters(cmd, &out)
			}
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true, bundle: haveBundle}, func(s *session) error {
				st, err := s.cluster.Status(cmd.Context())
				if err != nil {
					return err
				}
				if err := out.print(a.Out, st, func(w io.Writer) error { return statusTable(w, st) }); err != nil {
					return err
				}
				if !st.Healthy {
					return exitCode(fail.NotReady.ExitCode())
				}
				return nil
			})
		},
	}
	out.bind(c)
	return c
}

func statusTable(w io.Writer, s *cluster.Status) error {
	fmt.Fprintf(w, "%s\n  endpoint  %s\n  API       %s\n  etcd      %s\n", s.Summary(), s.Endpoint, s.API, s.Etcd)
	if !s.Expires.IsZero() {
		fmt.Fprintf(w, "  next certificate to expire  %s (%s)\n", s.Expires.Format(time.DateOnly), s.ExpiresOf)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "MACHINE\tROLE\tADDRESS\tSTATE\tCONFIGURATION\tNODE\tVERSION\tETCD")
	for _, m := range s.Machines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Role, m.Address, m.State, m.Config, m.Node, m.Version, m.Etcd)
	}
	return t.Flush()
}

// clusterRow is one cluster in the list.
type clusterRow struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created"`
	Lease    string    `json:"lease,omitempty"` // who is at work on it
}

func (a *App) listClusters(cmd *cobra.Command, out *output) error {
	st, err := a.viewStore(cmd.Context())
	if err != nil {
		return err
	}
	defer st.Close()
	clusters, err := st.Clusters(cmd.Context())
	if err != nil {
		return err
	}
	leases, err := st.Leases(cmd.Context())
	if err != nil {
		return err
	}
	rows := []clusterRow{}
	for _, c := range clusters {
		r := clusterRow{Name: c.Name, ID: c.ID, Provider: c.Provider, Created: c.CreatedAt}
		for _, l := range leases {
			if l.ClusterID == c.ID {
				r.Lease = fmt.Sprintf("%s by %s (alive: %s, expires %s)", l.Verb, l.Holder, l.Alive, l.Expires.Format(time.TimeOnly))
			}
		}
		rows = append(rows, r)
	}
	return out.print(a.Out, rows, func(w io.Writer) error {
		if len(rows) == 0 {
			return noClusters(w, st.Dir())
		}
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tPROVIDER\tCREATED\tID\tAT WORK")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Provider, r.Created.Local().Format(time.DateTime), r.ID, r.Lease)
		}
		return t.Flush()
	})
}
