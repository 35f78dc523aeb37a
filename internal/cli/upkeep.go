package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// repairFlags say what is repaired, and how it is told.
type repairFlags struct {
	run     runFlags
	machine string
	dry     bool // show the plan, and change nothing
	out     output.Format
}

func newRepairCmd(a *App) *cobra.Command {
	var f repairFlags
	c := &cobra.Command{
		Use:   "repair NAME",
		Short: "Heal a machine whose node stays not Ready: reboot, power cycle, replace",
		Long: `Do one round of repair: the machine whose node has been not Ready for longer than spec.repair.after climbs one rung of a ladder, and is waited for.

  1. It is rebooted.
  2. It is switched off at once, and on again, where its provider can do that.
  3. Another machine takes its place: with --consent replace-machines, or where spec.repair.replace is true.

Each rung is climbed once for a failure, and remembered with its time. It is given spec.repair.patience to work; the next round goes on. A machine
that was Ready for as long has recovered.

It is for cron, or a timer, without anybody who watches: one machine at a time, never below etcd's quorum, and nothing but that machine. A
replacement is refused where apply would change something else. Where more nodes are not Ready than spec.repair.maxUnhealthy allows, a third, none
is touched: the cause is not in the machines then. One whose node somebody has cordoned is left alone. --machine repairs that one, at once, in spite
of all three.

Exit status: 0 where no machine is sick or the one that was is Ready; 4 where nothing is left to be tried, too many are sick, or nobody has
consented; 5 where the machine is still not Ready.`,
		Example: `  naupegos repair demo --plan
  naupegos repair demo
  naupegos repair demo --machine demo-general-2 --consent replace-machines
  */5 * * * * naupegos repair demo --yes --progress none     # in a crontab`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.repair(cmd.Context(), args[0], &f) },
	}
	c.Flags().StringVar(&f.machine, "machine", "", "this machine alone, and at once")
	c.Flags().BoolVar(&f.dry, "plan", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "the same as --plan")
	f.run.bind(c)
	f.out.Bind(c)
	return c
}

// repaired is what became of one round of repair.
type repaired struct {
	Cluster string   `json:"cluster"`
	Machine string   `json:"machine,omitempty"` // that was repaired; empty: none was
	Rung    string   `json:"rung,omitempty"`    // by which: "reboot", "power-cycle", "replace"
	Notes   []string `json:"notes"`             // what else is to be known of machines that are not Ready
	Stuck   []string `json:"stuck,omitempty"`   // machines for which nothing is left to be tried
}

func (a *App) repair(ctx context.Context, name string, f *repairFlags) error {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Repair, Cluster: name, Machine: f.machine}, flags: &f.run, dry: f.dry, out: &f.out})
	if err != nil {
		return err
	}
	var round upkeep.Round
	if done.Round != nil {
		round = *done.Round
	}
	return a.tellRound(name, round, f)
}

// tellRound says what became of a round. Machines for which nothing is left to be tried are an error: somebody has to look.
func (a *App) tellRound(name string, r upkeep.Round, f *repairFlags) error {
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
		Short: "Bring the machines' operating system up to date: packages, and reboots where they are needed",
		Long: `Bring the packages of machines to what their mirror has, and reboot those that need it, one machine at a time: its node is drained, its packages are
updated, it is rebooted, and the next one's turn comes only when it is as well as before (kubelet, node Ready since the boot, etcd, API). Gateways
come first, then the control plane, after a backup, with the machine whose etcd member leads last, then the workers. A machine with nothing newer is
left alone.

Exactly what is shown is installed. Nothing is removed, files that somebody has edited stay, and so do packages whose programs come from the bundle
(kubelet, containerd and the like) and those in spec.updates.os.hold. A reboot is needed where packages ask for it, or a newer kernel lies there; local
machines have their host's kernel, and are restarted.

With spec.updates.os.window machines are disturbed at that time only, unless --now is given; a roll stops when it closes. A step that fails stops the
roll, and the same command goes on with the others.

Machines of OpenStack can get another image as well: name it in the document, and naupegos apply replaces them, with --consent replace-machines.`,
		Example: `  naupegos update demo --plan
  naupegos update demo
  naupegos update demo --pool general
  naupegos update demo --reboot-only --machine demo-cp-2
  30 2 * * * naupegos update demo --yes --progress none     # in a crontab`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.opts.Pool != "" && f.opts.Machine != "" {
				return fail.New(fail.Invalid, "--pool and --machine exclude each other")
			}
			return a.update(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().BoolVar(&f.opts.RebootOnly, "reboot-only", false, "reboot machines, whether they need it or not, and leave their packages")
	c.Flags().StringVar(&f.opts.Pool, "pool", "", "the workers of this pool alone")
	c.Flags().StringVar(&f.opts.Machine, "machine", "", "this machine alone")
	c.Flags().BoolVar(&f.opts.Now, "now", false, "outside of spec.updates.os.window, too")
	c.Flags().BoolVar(&f.dry, "plan", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "the same as --plan")
	f.run.bind(c)
	f.out.Bind(c)
	return c
}

// updateFlags say what is brought up to date.
type updateFlags struct {
	run  runFlags
	opts operate.Update
	dry  bool
	out  output.Format
}

func (a *App) update(ctx context.Context, name string, f *updateFlags) error {
	fmt.Fprintf(a.Err, "Asking the machines of cluster %s what could be newer.\n", name)
	began := time.Now()
	p, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: "update", Cluster: name, Update: &f.opts}, flags: &f.run, dry: f.dry, out: &f.out})
	switch {
	case err != nil || f.dry:
		return err
	case p.Empty() && !done.Changed:
		_, err = fmt.Fprintf(a.Out, "Cluster %s: no machine has anything to be updated.\n", name)
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s: its machines are up to date (%s).\n", name, time.Since(began).Round(100*time.Millisecond))
	return err
}

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
	f.run.consents.known = cluster.Consents()
	return c
}

func (a *App) recoverEtcd(ctx context.Context, name string, f *recoverFlags) error {
	began := time.Now()
	_, done, err := a.carry(ctx, &verb{
		asked: operate.Asked{Verb: "etcd recover", Cluster: name, Machine: f.from}, flags: &f.run, dry: f.dry, out: &f.format,
		question: fmt.Sprintf("Have etcd of cluster %s run on from %s alone, without what only others hold?", name, f.from),
	})
	if done.Said != "" {
		fmt.Fprintln(a.Out, done.Said)
	}
	if err != nil || f.dry {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is as its document says. It took %v.\n", name, time.Since(began).Round(100*time.Millisecond))
	return err
}
