package serving

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/store"
)

func newStatusCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the servers that are running, and what they work on",
		Long: `Show the servers that work on the store, how many clusters and physical machines they know, the jobs that have not ended,
and what the servers do unattended, with the last result. With --server, ask that server; else look into the store.

Exit status: 0 if a server is running, 5 if none is.`,
		Example: "  naupegos server status\n  naupegos server status --server https://boot.example.com:8443 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := h.status(cmd.Context())
			if err != nil {
				return err
			}
			if err := out.Print(h.Out, s, func(w io.Writer) error { return tellStatus(w, s) }); err != nil {
				return err
			}
			if len(s.Servers) == 0 {
				return fail.New(fail.NotReady, "no server is at work on this store").At(s.Store).Do("naupegos server starts one")
			}
			return nil
		},
	}
	out.Bind(c)
	return c
}

func (h Host) status(ctx context.Context) (s *api.ServerStatus, err error) {
	c, err := h.Remote()
	if err != nil {
		return nil, err
	}
	if c != nil {
		return c.Server(ctx)
	}
	err = h.withStore(ctx, func(st store.Store) (err error) {
		s, err = api.StatusOf(ctx, st, func(string) bool { return true })
		return err
	})
	return s, err
}

func tellStatus(w io.Writer, s *api.ServerStatus) error {
	fmt.Fprintf(w, "Store: %s\nClusters: %d\n", s.Store, s.Clusters)
	if len(s.Machines) > 0 {
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(s.Machines)) {
			name := state
			if name == "" {
				name = "not seen yet"
			}
			parts = append(parts, fmt.Sprintf("%d %s", s.Machines[state], name))
		}
		fmt.Fprintf(w, "Physical machines: %s\n", strings.Join(parts, ", "))
	}
	t := output.NewTable(w)
	if len(s.Servers) > 0 {
		t.Head("\nSERVER\tVERSION\tHTTP\tHTTPS\tSINCE")
	}
	for _, i := range s.Servers {
		t.Row("%s\t%s\t%s\t%s\t%s\n", i.Holder, i.Version, output.Dash(i.HTTP), output.Dash(i.HTTPS), at(i.Started))
	}
	if len(s.Jobs) > 0 {
		t.Head("\nJOB\tVERB\tCLUSTER\tSTATE\tBY\tSERVER")
	}
	for _, j := range s.Jobs {
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\n", j.ID, j.Title, j.Cluster, j.State, j.Who, output.Dash(j.Holder))
	}
	if len(s.Duties) > 0 {
		t.Head("\nCLUSTER\tUNASKED\tLAST\tOUTCOME\tFAILURES\tDUE\tMESSAGE")
	}
	for _, d := range s.Duties {
		outcome := d.Outcome
		if d.Holder != "" {
			outcome = "under way"
		}
		t.Row("%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.Cluster, d.Kind, at(d.Ended), output.Dash(outcome), d.Failures, at(d.Due), output.Dash(d.Message))
	}
	return t.Flush()
}

func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
