package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
)

func newEtcdCmd(a *App) *cobra.Command {
	c := &cobra.Command{Use: "etcd", Short: "What happens to etcd alone"}
	c.AddCommand(newEtcdRecoverCmd(a))
	return c
}

// recoverFlags are those of naupegos etcd recover.
type recoverFlags struct {
	from   string
	dry    bool
	format output.Format
	run    runFlags
}

func newEtcdRecoverCmd(a *App) *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover NAME --from MACHINE",
		Short: "Have etcd run on from the one member that is left, without a backup",
		Long: `Where most members of etcd are lost for good, have it run on from what one control-plane machine holds: its database, and all of its log that it
knows to be agreed. What was written after that is lost; the last revision that is there is said. Where the lost members may come back, start their
machines and run naupegos apply instead: nothing is lost then. While etcd has its quorum it is refused.

  1. The other control-plane machines that answer stop their etcd, and keep its data aside.
  2. The survivor's data is read from a copy, and becomes the data of a cluster of one member. What it had before is kept aside there. Revisions
     grow by a billion, so that nobody who has watched takes old for new; former members can't join it.
  3. What naupegos apply does: machines that are gone are made again, and join, as do those that stopped.

A machine that exists and does not answer could come back with others and serve the former data: give it up with --consent ` + cluster.ConsentLeave + `=MACHINE.
Another one takes its place; of a host given by address, apply refuses to build on it until naupegos reset --machine has cleaned it.

Where no member is left, or a lot is missing, a backup is the way: naupegos destroy, then naupegos backup restore. Whatever is interrupted goes on
with the same command.`,
		Example: `  naupegos etcd recover demo --from demo-cp-1 --dry-run
  naupegos etcd recover demo --from demo-cp-1
  naupegos etcd recover demo --from demo-cp-1 --consent ` + cluster.ConsentLeave + `=demo-cp-3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from == "" {
				return fail.New(fail.Invalid, "say which machine's member is left").Do("--from MACHINE; naupegos status %s names the control-plane machines", args[0])
			}
			return a.recoverEtcd(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "the control-plane machine whose member is left")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
	f.format.Bind(c)
	f.run.bind(c)
	f.run.consents.known = append(cluster.Consents(), cluster.ConsentLeave)
	return c
}

func (a *App) recoverEtcd(ctx context.Context, name string, f *recoverFlags) error {
	began := time.Now()
	options := sessionOptions{verb: "etcd recover", readOnly: true, bundle: bundles.Made}
	if f.dry {
		options.verb = ""
	}
	s, doc, err := a.openNamed(ctx, name, options)
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Cluster.PlanRecover(ctx, f.from)
	if err != nil {
		return err
	}
	later := "Once this is done, apply has the other control-plane machines join again."
	if f.dry {
		return a.printPlan(p, later, &f.format)
	}
	t := a.terms(&f.run, doc)
	t.Question = fmt.Sprintf("Have etcd of cluster %s run on from %s alone, without what only others hold?", name, f.from)
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, s.Record.Document) }
	if err := s.CarryOut(ctx, p, t); err != nil {
		return err
	}
	if r := s.Cluster.LastRecovery(); r != nil && r.Left != nil {
		fmt.Fprintf(a.Out, "Etcd of cluster %s runs on from %s: everything up to revision %d is there, what was written after it is lost; %d entries of its log were dropped "+
			"that it did not know to be agreed. The next revision is %d.\n", name, f.from, r.Left.Revision, r.Left.Discarded, r.Left.Next())
	}
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	t.Question, t.Commit = "Have the other control-plane machines join again?", nil
	if _, err := s.Converge(ctx, first, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is as its document says. It took %v.\n", name, time.Since(began).Round(100*time.Millisecond))
	return err
}
