package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// nodeChange is a verb that changes the set of machines. It edits the document in memory first; when the user confirms the plan, the document
// is stored, and written to the user's file if one is named.
type nodeChange struct {
	app   *App
	asked operate.Asked
	file  string // the user's document; empty: the stored one
	run   runFlags
	out   output.Format
}

// carryOut makes the plan, asks, stores the document and executes the plan.
func (n *nodeChange) carryOut(ctx context.Context, name string) error {
	n.asked.Cluster = name
	if n.file != "" {
		data, err := os.ReadFile(n.file)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "read the document")
		}
		n.asked.Document, n.asked.From = string(data), n.file
	}
	_, done, err := n.app.carry(ctx, &verb{asked: n.asked, flags: &n.run, out: &n.out, file: n.file})
	if err != nil {
		return err
	}
	if done.Paused {
		_, err = fmt.Fprintf(n.app.Out, "Paused. naupegos apply, or the same command without --pause-after, continues with cluster %s.\n", name)
		return err
	}
	_, err = io.WriteString(n.app.Out, done.Ended(name, "as wanted", done.Took(n.app.bundled)))
	return err
}

func newNodeAddCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, asked: operate.Asked{Verb: "node add"}}
	var grow operate.Grow
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add machines to a pool of workers or to the control plane",
		Long: `Raise the number of machines in the document, and do what apply does. Without -f the stored document is changed; with -f
that file is, and its comments are kept. The control plane has 1, 3 or 5 machines, so it grows by two.`,
		Example: `  naupegos node add demo
  naupegos node add demo --pool general --count 2 -f cluster.yaml
  naupegos node add demo --control-plane --count 2
  naupegos node add demo --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grow.ControlPlane && grow.Pool != "" {
				return fail.New(fail.Invalid, "--pool and --control-plane exclude each other")
			}
			if grow.Count < 1 {
				return fail.New(fail.Invalid, "--count %d", grow.Count).Do("give a number from 1 on")
			}
			n.asked.Grow = &grow
			return n.carryOut(cmd.Context(), args[0])
		},
	}
	c.Flags().StringVar(&grow.Pool, "pool", "", "pool of workers (default: the only one)")
	c.Flags().BoolVar(&grow.ControlPlane, "control-plane", false, "add control-plane machines")
	c.Flags().IntVar(&grow.Count, "count", 1, "number of machines to add")
	n.bind(c)
	return c
}

func newNodeRemoveCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, asked: operate.Asked{Verb: "node remove"}}
	c := &cobra.Command{
		Use:     "remove NAME MACHINE...",
		Aliases: []string{"rm"},
		Short:   "Drain machines, take them out of etcd and Kubernetes, and destroy them",
		Long: `Remove exactly the machines that you name, and lower the number in the document accordingly: pods move elsewhere,
control-plane machines leave etcd (refused beforehand if the quorum would be at risk), and the machines are destroyed.
Without -f the stored document is changed; with -f that file is, and its comments are kept. The control plane has 1, 3
or 5 machines, so two are removed together.`,
		Example: "  naupegos node remove demo demo-general-2\n  naupegos node remove demo demo-general-2 --dry-run\n  naupegos node remove demo demo-cp-4 demo-cp-5 -f cluster.yaml",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.asked.Machines = unique(args[1:])
			return n.carryOut(cmd.Context(), args[0])
		},
	}
	n.bind(c)
	return c
}

func (n *nodeChange) bind(c *cobra.Command) {
	c.Flags().StringVarP(&n.file, "file", "f", "", "the Cluster document to change as well (default: the stored one only)")
	n.bindRun(c)
}

// bindRun adds the flags of all verbs that change machines.
func (n *nodeChange) bindRun(c *cobra.Command) {
	n.run.bind(c)
	n.out.Bind(c)
}

func unique(names []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, n := range names {
		if !seen[n] {
			out = append(out, n)
		}
		seen[n] = true
	}
	return out
}
