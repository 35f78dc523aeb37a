package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

func newHistoryCmd(a *App) *cobra.Command {
	var out output.Format
	var html string
	limit := flags.AtLeastOne(20)
	c := &cobra.Command{
		Use:   "history [NAME [RUN]]",
		Short: "Show what was done to clusters, and when",
		Long: `List the plans that were carried out, newest first, of one cluster or of all. With the ID of a run (or "last"), show
the steps of that run on a timeline. --html writes the timeline to a self-contained HTML page. History is kept when a
cluster is destroyed.`,
		Example: "  naupegos history\n  naupegos history demo last\n  naupegos history demo last --html demo.html",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, done, err := journal(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer done()
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if html != "" && len(args) == 0 {
				return fail.New(fail.Invalid, "--html shows one run, but no cluster is named").Do("naupegos history NAME --html %s", html)
			}
			if html != "" && len(args) == 1 {
				args = append(args, "last")
			}
			if len(args) < 2 {
				runs, err := st.Runs(cmd.Context(), name, int(limit))
				if err != nil {
					return err
				}
				return out.Print(a.Out, runs, func(w io.Writer) error { return runTable(w, runs) })
			}
			run, err := findRun(cmd, st, name, args[1])
			if err != nil {
				return err
			}
			if html != "" {
				return writeHTML(a, html, run)
			}
			return out.Print(a.Out, run, func(w io.Writer) error { return show.WriteTimeline(w, *run, terminal.Width(w)) })
		},
	}
	out.Bind(c)
	c.Flags().StringVar(&html, "html", "", "write the timeline of the run (default the last one) to this HTML file")
	c.Flags().Var(&limit, "limit", "maximum number of runs to list")
	return c
}

func runTable(w io.Writer, runs []plan.RunRecord) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "Nothing has been done yet: naupegos apply -f FILE builds a cluster.")
		return err
	}
	t := output.NewTable(w)
	t.Head("RUN\tCLUSTER\tWHAT\tSTARTED\tTOOK\tSTEPS\tOUTCOME\tBY")
	for _, r := range runs {
		took := "-"
		if !r.Ended.IsZero() {
			took = r.Ended.Sub(r.Started).Round(100 * time.Millisecond).String()
		}
		outcome := string(r.Outcome)
		if machine := operate.PausedAfter(&r); machine != "" {
			outcome += ", pauses after " + machine
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Cluster, r.Title, r.Started.Local().Format(time.DateTime), took, len(r.Steps), outcome, r.By)
	}
	return t.Flush()
}

// journal returns the journal to read, the server's or the store's, and a function that closes it.
func journal(ctx context.Context, a *App) (_ runs, done func(), err error) {
	if c, err := a.server(); c != nil || err != nil {
		return c, func() {}, err
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	return known{st}, func() { _ = st.Close() }, nil // only read
}

// known is a store that distinguishes clusters without runs from unknown clusters.
type known struct{ store.Store }

// Runs implements runs.
func (k known) Runs(ctx context.Context, name string, limit int) ([]plan.RunRecord, error) {
	all, err := k.Store.Runs(ctx, name, limit)
	if err == nil && name != "" && len(all) == 0 {
		_, err = k.Cluster(ctx, name)
	}
	return all, err
}

// runs is the part of the store that history reads.
type runs interface {
	Runs(ctx context.Context, clusterName string, limit int) ([]plan.RunRecord, error)
	Run(ctx context.Context, id string) (*plan.RunRecord, error)
}

// findRun finds a run by its ID, or the last run of a cluster.
func findRun(cmd *cobra.Command, st runs, cluster, id string) (*plan.RunRecord, error) {
	if id != "last" {
		return st.Run(cmd.Context(), id)
	}
	list, err := st.Runs(cmd.Context(), cluster, 1)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fail.New(fail.NotFound, "nothing has been done to cluster %s yet", cluster)
	}
	return st.Run(cmd.Context(), list[0].ID)
}

func writeHTML(a *App, path string, run *plan.RunRecord) error {
	f, err := os.Create(path)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "write %s", path)
	}
	if err := show.WriteHTML(f, *run); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fail.Wrap(fail.Internal, err, "write %s", path)
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", path)
	return err
}
