package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// repairFlags are the flags of naupegos repair.
type repairFlags struct {
	run     runFlags
	machine string
	out     output.Format
}

func newRepairCmd(a *App) *cobra.Command {
	var f repairFlags
	c := &cobra.Command{
		Use:   "repair NAME",
		Short: "Repair a machine whose node stays not Ready: reboot, power cycle, replace",
		Long: `Do one round of repair: take the next step for a machine whose node has been not Ready for longer than
spec.repair.after, and wait for it.

  1. Reboot it.
  2. Power-cycle it (off immediately, then on again), if its provider can do that.
  3. Replace it with another machine: with --consent replace-machines, or if spec.repair.replace is true.

Each step is tried once for a failure, and recorded with its time. It has spec.repair.patience to take effect; the next
round takes the next step. A machine that was Ready for that long has recovered.

Run it from cron or a timer, unattended: it repairs one machine at a time, never goes below etcd's quorum, and touches
nothing but that machine. A replacement is refused if apply would change something else as well. If more nodes are not
Ready than spec.repair.maxUnhealthy allows (a third by default), none is touched: the cause is then unlikely to be in
the machines. A machine whose node a user cordoned is left alone. --machine repairs that machine at once, whichever
of spec.repair.after, maxUnhealthy and the cordon would prevent it.

Exit status: 0 if no machine is sick, or the one that was is Ready; 4 if nothing is left to try, too many machines are
sick, or consent is missing; 5 if the machine is still not Ready.`,
		Example: `  naupegos repair demo --dry-run
  naupegos repair demo
  naupegos repair demo --machine demo-general-2 --consent replace-machines
  */5 * * * * naupegos repair demo --yes --progress none     # in a crontab`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return repair(cmd.Context(), a, args[0], &f) },
	}
	c.Flags().StringVar(&f.machine, "machine", "", "repair this machine only, and at once")
	f.run.bind(c)
	f.out.Bind(c)
	return c
}

// repaired is the result of one round of repair.
type repaired struct {
	Cluster string   `json:"cluster"`
	Machine string   `json:"machine,omitempty"` // the repaired machine; empty: none
	Rung    string   `json:"rung,omitempty"`    // method: "reboot", "power-cycle", "replace"
	Notes   []string `json:"notes"`             // further facts about machines that are not Ready
	Stuck   []string `json:"stuck,omitempty"`   // machines without a remaining method
}

func repair(ctx context.Context, a *App, name string, f *repairFlags) error {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Repair, Cluster: name, Machine: f.machine}, flags: &f.run, out: &f.out})
	if err != nil {
		return err
	}
	var round upkeep.Round
	if done.Round != nil {
		round = *done.Round
	}
	return tellRound(a, name, round, f)
}

// tellRound prints the result of a round. It returns an error if no machine was repaired and some have no method left, because a person must act.
func tellRound(a *App, name string, r upkeep.Round, f *repairFlags) error {
	done := repaired{Cluster: name, Machine: r.Machine, Rung: string(r.Rung), Notes: append([]string{}, r.Notes...), Stuck: r.Stuck}
	err := f.out.Print(a.Out, done, func(w io.Writer) error {
		for _, n := range r.Notes {
			if _, err := fmt.Fprintln(w, n); err != nil {
				return err
			}
		}
		line := fmt.Sprintf("Cluster %s: no machine is to be repaired.", name)
		if r.Machine != "" {
			line = fmt.Sprintf("Cluster %s: %s is Ready again (%s).", name, r.Machine, r.Rung)
		}
		_, err := fmt.Fprintln(w, line)
		return err
	})
	if err == nil && len(r.Stuck) > 0 && r.Machine == "" {
		err = fail.New(fail.Refused, "%s can't be repaired any further", strings.Join(r.Stuck, ", ")).At(name).
			Do("naupegos status %s and naupegos logs %s say what is wrong; naupegos node replace, or naupegos machine, does what you decide", name, name)
	}
	return err
}

func newUpdateCmd(a *App) *cobra.Command {
	var f updateFlags
	c := &cobra.Command{
		Use:   "update NAME",
		Short: "Update the machines' operating system: packages, and reboots if needed",
		Long: `Update the packages of machines to the versions on their mirror, and reboot those that need it, one machine at a time:
its node is drained, its packages are updated, it is rebooted, and the next machine follows only when it is as healthy
as before (kubelet, node Ready since the boot, etcd, API). Gateways come first, then the control plane, after a backup
and with etcd's leader last, then the workers. A machine without updates is left alone.

Exactly the versions in the plan are installed. Nothing is removed. Edited files are kept, and so are
packages whose programs come from the bundle (kubelet, containerd and the like) and those in spec.updates.os.hold. A
machine needs a reboot if its packages ask for it or a newer kernel is installed; local machines share their host's
kernel, and are restarted.

With spec.updates.os.window, machines are updated only during that time, unless --now is given; the update stops when
the window closes. A failed step stops the update; the same command continues with the remaining machines.

Machines on OpenStack can also get another image: name it in the document, and naupegos apply replaces them, with
--consent replace-machines.`,
		Example: `  naupegos update demo --dry-run
  naupegos update demo
  naupegos update demo --pool general
  naupegos update demo --reboot-only --machine demo-cp-2
  30 2 * * * naupegos update demo --yes --progress none     # in a crontab`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.opts.Pool != "" && f.opts.Machine != "" {
				return fail.New(fail.Invalid, "--pool and --machine exclude each other")
			}
			return update(cmd.Context(), a, args[0], &f)
		},
	}
	c.Flags().BoolVar(&f.opts.RebootOnly, "reboot-only", false, "reboot machines, needed or not, and do not update packages")
	c.Flags().StringVar(&f.opts.Pool, "pool", "", "update the workers of this pool only")
	c.Flags().StringVar(&f.opts.Machine, "machine", "", "update this machine only")
	c.Flags().BoolVar(&f.opts.Now, "now", false, "update outside of spec.updates.os.window as well")
	f.run.bind(c)
	f.out.Bind(c)
	return c
}

// updateFlags are the flags of naupegos update.
type updateFlags struct {
	run  runFlags
	opts operate.Update
	out  output.Format
}

func update(ctx context.Context, a *App, name string, f *updateFlags) error {
	began := time.Now()
	p, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: "update", Cluster: name, Update: &f.opts}, flags: &f.run, out: &f.out})
	switch {
	case err != nil:
		return err
	case p.Empty() && !done.Changed:
		_, err = fmt.Fprintf(a.Out, "Cluster %s: no machine has updates.\n", name)
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s: its machines are up to date (%s).\n", name, time.Since(began).Round(100*time.Millisecond))
	return err
}

func newEtcdCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "etcd",
		Short:   "Recover etcd after most of its members were lost",
		Example: "  naupegos etcd recover demo --from demo-cp-1 --dry-run",
	}
	c.AddCommand(newEtcdRecoverCmd(a))
	return c
}

// recoverFlags are the flags of naupegos etcd recover.
type recoverFlags struct {
	from   string
	format output.Format
	run    runFlags
}

func newEtcdRecoverCmd(a *App) *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover NAME --from MACHINE",
		Short: "Rebuild etcd from its only remaining member, without a backup",
		Long: `Rebuild etcd from one control-plane machine when most of its members are lost for good: from that member's database
and the committed part of its log. What was written after that is lost; the command prints the last revision that
remains. If the lost members may come back, start their machines and run naupegos apply instead: nothing is lost then.
The command is refused while etcd has its quorum.

  1. The other control-plane machines that answer stop their etcd, and keep its data aside.
  2. A copy of the survivor's data becomes the data of a cluster with one member. The original is kept aside on that
     machine. Revisions are raised by a billion, so that no watcher takes old objects for new ones; old members can't
     join.
  3. As in naupegos apply, machines that are gone are created again and join, and stopped ones are started.

A machine that exists but does not answer might come back with others and serve the old data: give it up with
--consent ` + nodes.ConsentLeave + `=MACHINE. Another machine takes its place. On a host given by address, apply refuses to build
until naupegos reset --machine has cleaned it.

If no member is left, or much is missing, use a backup: naupegos destroy, then naupegos backup restore. If the command
is interrupted, run it again.`,
		Example: `  naupegos etcd recover demo --from demo-cp-1 --dry-run
  naupegos etcd recover demo --from demo-cp-1
  naupegos etcd recover demo --from demo-cp-1 --consent ` + nodes.ConsentLeave + `=demo-cp-3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from == "" {
				return fail.New(fail.Invalid, "no remaining machine is given").Do("--from MACHINE; naupegos status %s names the control-plane machines", args[0])
			}
			return recoverEtcd(cmd.Context(), a, args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "the control-plane machine whose etcd member remains")
	f.format.Bind(c)
	f.run.bind(c)
	return c
}

func recoverEtcd(ctx context.Context, a *App, name string, f *recoverFlags) error {
	began := time.Now()
	_, done, err := a.carry(ctx, &verb{
		asked: operate.Asked{Verb: "etcd recover", Cluster: name, Machine: f.from}, flags: &f.run, out: &f.format,
		question: fmt.Sprintf("Continue etcd of cluster %s from %s alone, and lose what only other members hold?", name, f.from),
	})
	if done.Said != "" {
		fmt.Fprintln(a.Out, done.Said)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is as its document says. It took %v.\n", name, time.Since(began).Round(100*time.Millisecond))
	return err
}
