package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/metal"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/interrupt"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
)

func newMachineCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "machine",
		Short: "List, start, stop and reboot a cluster's machines; manage physical machines",
		Long: `The machines of a cluster as their provider sees them: powered on or off. naupegos status shows what runs on them,
naupegos node changes how many there are, and naupegos apply starts machines that are off.

The other subcommands manage physical machines that boot from a naupegos server over the network. They ask the server
that --server or $NAUPEGOS_SERVER names, with the token in $NAUPEGOS_TOKEN or $NAUPEGOS_TOKEN_FILE.`,
		Example: "  naupegos machine list demo\n  naupegos machine reboot demo demo-general-1\n  naupegos machine list --server https://boot.example.com:8443",
	}
	physical := metal.Extend(c, metal.Host{
		Out: a.Out, Err: a.Err,
		Server: func() (metal.Server, error) {
			conf, err := a.connection()
			return metal.Server{URL: conf.URL, Token: conf.Token, CA: conf.CA}, err
		},
		Confirm: func(yes bool, question string) error { return a.confirm(&runFlags{yes: yes}, question) },
	})
	c.AddCommand(newMachineListCmd(a, physical))
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

func newMachineListCmd(a *App, physical *metal.Verbs) *cobra.Command {
	var out output.Format
	var f metal.Filter
	c := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List a cluster's machines and their power state, or a server's physical machines",
		Long: `List the machines of the cluster NAME and whether they run. Without NAME, list the physical machines that the server
of --server or $NAUPEGOS_SERVER knows.`,
		Example: "  naupegos machine list demo\n  naupegos machine list demo -o yaml\n  naupegos machine list --server https://boot.example.com:8443 --approval pending",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if !physical.Wanted() {
					return fail.New(fail.Invalid, "neither a cluster nor a server is named").Do("name a cluster, or --server https://HOST:8443 for physical machines")
				}
				return physical.List(cmd.Context(), &f, &out)
			}
			list, err := see(cmd.Context(), a, args[0], operate.Machines, operate.Plainly{})
			if err != nil {
				return err
			}
			rows, err := output.SelectBy(f.Labels(), machineRows(list.Machines))
			if err != nil {
				return err
			}
			return out.Print(a.Out, rows, func(w io.Writer) error { return machineTable(w, rows, list.Others) })
		},
	}
	out.Bind(c)
	f.Bind(c)
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
	t := output.NewTable(w)
	t.Head("NAME\tROLE\tPOOL\tADDRESS\tSTATE\tDETAIL")
	for _, m := range rows {
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Role, output.Dash(m.Pool), output.Dash(m.Address), m.State, output.Dash(m.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(others) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nOther resources of the cluster there:\n  %s\n", strings.Join(others, "\n  "))
	return err
}

// power is a verb that switches machines.
type power struct {
	verb   string
	states []string // of provider.Power, in order
	done   string
	ask    bool // ask first, because the verb disturbs running programs
	short  string
	long   string
}

func powers() []power {
	return []power{
		{verb: "start", states: []string{"on"}, done: "runs", short: "Power on machines",
			long: "Power on machines, and wait until they have booted. Machines that already run are left alone."},
		{verb: "stop", states: []string{"off"}, done: "is off", ask: true, short: "Shut down machines",
			long: "Shut down machines cleanly. Their nodes are not drained first: see naupegos node drain."},
		{verb: "kill", states: []string{"kill"}, done: "is powered off", ask: true, short: "Power off machines immediately",
			long: "Power off machines as if their power had failed, to test what a cluster survives."},
		{verb: "reboot", states: []string{"off", "on"}, done: "has rebooted", ask: true, short: "Shut down machines and power them on again",
			long: "Shut down machines cleanly, power them on again and wait until they have booted. Several machines reboot at the same time."},
	}
}

// asks returns the part of the help about the question.
func (p power) asks() string {
	if !p.ask {
		return ""
	}
	return "\n\nThe command says what it disturbs, and asks first. If etcd would lose its quorum, and the cluster its API with it, it is\nrefused without --consent " +
		nodes.ConsentQuorum + "."
}

// examples returns examples that work as written.
func (p power) examples() string {
	lines := fmt.Sprintf("  naupegos machine %s demo demo-general-1", p.verb)
	if !p.ask {
		return lines + fmt.Sprintf("\n  naupegos machine %s demo", p.verb)
	}
	return lines + fmt.Sprintf(" --yes\n  naupegos machine %s demo --consent %s", p.verb, nodes.ConsentQuorum)
}

func newPowerCmd(a *App, p power) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     p.verb + " NAME [MACHINE...]",
		Short:   p.short,
		Long:    p.long + p.asks() + "\n\nWithout MACHINE, the command acts on all machines of the cluster.",
		Example: p.examples(),
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return switchMachines(cmd.Context(), a, p, args[0], unique(args[1:]), &f)
		},
	}
	if p.ask {
		c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
		f.consents.Known = []string{nodes.ConsentQuorum}
		c.Flags().Var(&f.consents, "consent", "consent to a loss: "+nodes.ConsentQuorum)
	} else {
		f.yes = true
	}
	verbs.DryRun(c, &f.dry)
	return c
}

func switchMachines(ctx context.Context, a *App, p power, name string, machines []string, f *runFlags) error {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: "machine " + p.verb, Cluster: name, Machines: machines}, flags: f, brief: true, asks: func(on *plan.Plan) string {
		if len(machines) > 0 {
			return p.short + ": " + strings.Join(machines, ", ") + "?"
		}
		return fmt.Sprintf("%s: all %d of cluster %s?", p.short, len(on.Steps)/len(p.states), name)
	}})
	if err != nil {
		return err
	}
	for _, m := range done.Names {
		fmt.Fprintf(a.Out, "%s %s\n", m, p.done)
	}
	return nil
}

// newLocalMachineCmd returns the hidden command that keeps a local machine running after the verb that started it.
func newLocalMachineCmd() *cobra.Command {
	return &cobra.Command{
		Use: local.SupervisorCommand + " DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Run one local machine (started by naupegos itself)",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, give := interrupt.Take(cmd.Context()) // a supervisor has its own way to stop
			defer give()
			return local.Supervise(cmd.Context(), args[0])
		},
	}
}
