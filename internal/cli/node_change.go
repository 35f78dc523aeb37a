package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// nodeChange is a verb that changes which machines there are. The document is edited in memory first; it is stored, and
// written to the user's file where one is named, when the plan is confirmed.
type nodeChange struct {
	app  *App
	verb string // "node add"
	name string // of the cluster
	file string // the user's document; empty: the stored one
	run  runFlags
	dry  bool // show the plan, and change nothing
	out  output.Format

	edit    func(doc *v1alpha1.Cluster, data []byte) ([]byte, error)          // nil: the document stays
	plan    func(context.Context, *cluster.Cluster) (*cluster.Applied, error) // the first plan
	decide  func(context.Context, *cluster.Cluster) error                     // remembers what the document can't say; may be nil
	rec     *store.Cluster                                                    // what the store knows; there when edit is called
	doc     *v1alpha1.Cluster
	data    []byte // the edited document
	changed bool
	sizes   map[string]int // of pools that scale, by name: what is to be remembered
}

// carryOut plans, asks, remembers and executes.
func (n *nodeChange) carryOut(ctx context.Context) error {
	o := sessionOptions{verb: n.verb, readOnly: true, bundle: bundles.Made, edit: n.read}
	if n.dry {
		o.verb, o.bundle = "", bundles.IfHere
	}
	s, _, err := n.app.openNamed(ctx, n.name, o)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	for pool, size := range n.sizes {
		if err := s.Cluster.Resize(ctx, pool, size); err != nil {
			return err
		}
	}
	ap, err := n.plan(ctx, s.Cluster)
	if err != nil {
		return err
	}
	if n.dry {
		return n.app.printPlan(ap.Plan, ap.Later(), &n.out)
	}
	t := n.app.terms(&n.run, n.doc)
	t.Commit = func(ctx context.Context) error { return n.remember(ctx, s) }
	if _, err := s.Converge(ctx, ap, t); err != nil {
		return err
	}
	if s.Cluster.Paused() {
		_, err = fmt.Fprintf(n.app.Out, "Paused. naupegos apply, or the same command without --pause-after, goes on with cluster %s.\n", n.name)
		return err
	}
	_, err = fmt.Fprintf(n.app.Out, "Cluster %s is as wanted (%s).\n", n.name, time.Since(began).Round(100*time.Millisecond))
	return err
}

// read finds the document and edits it.
func (n *nodeChange) read(rec *store.Cluster) (*v1alpha1.Cluster, error) {
	n.rec = rec
	data, from := rec.Document, "the stored document of "+n.name
	if n.file != "" {
		var err error
		if data, err = os.ReadFile(n.file); err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the document")
		}
		from = n.file
	}
	doc, err := v1alpha1.Parse(from, data)
	if err != nil {
		return nil, err
	}
	if doc.Metadata.Name != n.name {
		return nil, fail.New(fail.Invalid, "%s describes cluster %s, not %s", from, doc.Metadata.Name, n.name)
	}
	n.doc, n.data = doc, data
	if n.edit == nil {
		return doc, nil
	}
	if n.data, err = n.edit(doc, data); err != nil {
		return nil, err
	}
	n.changed = !bytes.Equal(n.data, data)
	n.doc, err = v1alpha1.Parse(from+" with the change", n.data)
	return n.doc, err
}

// remember stores what is now wanted.
func (n *nodeChange) remember(ctx context.Context, s *session) error {
	if n.changed && n.file != "" {
		if err := wholefile.Rewrite(n.file, n.data); err != nil {
			return err
		}
		fmt.Fprintf(n.app.Err, "%s was changed.\n", n.file)
	}
	if n.changed && n.file == "" {
		fmt.Fprintf(n.app.Err, "The stored document was changed; if you keep it in a file, change that too or name it with -f.\n")
	}
	if err := s.Commit(ctx, n.data); err != nil {
		return err
	}
	if n.decide == nil {
		return nil
	}
	return n.decide(ctx, s.Cluster)
}

// poolNames lists the pools of a document, for messages.
func poolNames(doc *v1alpha1.Cluster) string {
	var names []string
	for _, w := range doc.Spec.Workers {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}

func newNodeAddCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node add"}
	var pool string
	var controlPlane bool
	var count int
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add machines to a pool of workers or to the control plane",
		Long: `Raise the number of machines that the document wants, and do what apply does. Without -f the stored document is changed;
with it that file, whose comments stay. The control plane has 1, 3 or 5 machines, so it grows by two.`,
		Example: `  naupegos node add demo
  naupegos node add demo --pool general --count 2 -f cluster.yaml
  naupegos node add demo --control-plane --count 2
  naupegos node add demo --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if controlPlane && pool != "" {
				return fail.New(fail.Invalid, "--pool and --control-plane exclude each other")
			}
			if count < 1 {
				return fail.New(fail.Invalid, "--count %d", count).Do("give a number from 1 on")
			}
			n.name = args[0]
			n.edit = func(doc *v1alpha1.Cluster, data []byte) ([]byte, error) {
				g, err := groupToGrow(doc, pool, controlPlane)
				if err != nil {
					return nil, err
				}
				return n.resize(doc, data, g, count)
			}
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) { return c.PlanApply(ctx) }
			return n.carryOut(cmd.Context())
		},
	}
	c.Flags().StringVar(&pool, "pool", "", "the pool of workers (default: the only one)")
	c.Flags().BoolVar(&controlPlane, "control-plane", false, "add control-plane machines")
	c.Flags().IntVar(&count, "count", 1, "how many")
	n.bind(c)
	return c
}

func newNodeRemoveCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node remove"}
	c := &cobra.Command{
		Use:     "remove NAME MACHINE...",
		Aliases: []string{"rm"},
		Short:   "Remove machines: drained, taken out of etcd and Kubernetes, destroyed",
		Long: `Lower the number of machines that the document wants by those named, and let exactly those go: their pods move elsewhere,
control-plane machines leave etcd (the quorum is foreseen before anything is begun), and the machines are destroyed. Without -f the
stored document is changed; with it that file, whose comments stay. The control plane has 1, 3 or 5 machines, so two go together.`,
		Example: "  naupegos node remove demo demo-general-2\n  naupegos node remove demo demo-general-2 --dry-run\n  naupegos node remove demo demo-cp-4 demo-cp-5 -f cluster.yaml",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.name = args[0]
			machines := unique(args[1:])
			n.edit = func(doc *v1alpha1.Cluster, data []byte) ([]byte, error) { return n.shrink(doc, data, machines) }
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) {
				return c.PlanRemove(ctx, machines...)
			}
			n.decide = func(ctx context.Context, c *cluster.Cluster) error { return c.Decide(ctx, wanted.Remove, machines...) }
			return n.carryOut(cmd.Context())
		},
	}
	n.bind(c)
	return c
}

func (n *nodeChange) bind(c *cobra.Command) {
	c.Flags().StringVarP(&n.file, "file", "f", "", "the Cluster document to change too (default: the stored one only)")
	n.bindRun(c)
}

// bindRun adds what all verbs have that change machines.
func (n *nodeChange) bindRun(c *cobra.Command) {
	n.run.bind(c)
	n.out.Bind(c)
	c.Flags().BoolVar(&n.dry, "dry-run", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
}

// groupToGrow finds the group that the flags name.
func groupToGrow(doc *v1alpha1.Cluster, pool string, controlPlane bool) (wanted.Group, error) {
	if controlPlane {
		return wanted.Group{Role: provider.ControlPlane, Replicas: doc.Spec.ControlPlane.Replicas}, nil
	}
	if pool == "" && len(doc.Spec.Workers) != 1 {
		return wanted.Group{}, fail.New(fail.Invalid, "cluster %s has %d pools of workers", doc.Metadata.Name, len(doc.Spec.Workers)).
			Do("name one with --pool: %s", poolNames(doc))
	}
	for _, w := range doc.Spec.Workers {
		if pool == "" || w.Name == pool {
			return wanted.Group{Role: provider.Worker, Pool: w.Name, Replicas: w.Count()}, nil
		}
	}
	return wanted.Group{}, fail.New(fail.NotFound, "cluster %s has no pool %s", doc.Metadata.Name, pool).Do("it has %s", poolNames(doc))
}

// shrink lowers the numbers of the groups that machines belong to.
func (n *nodeChange) shrink(doc *v1alpha1.Cluster, data []byte, machines []string) ([]byte, error) {
	less := map[wanted.Group]int{}
	var order []wanted.Group
	for _, m := range machines {
		g, err := wanted.GroupOf(doc, m)
		if err != nil {
			return nil, err
		}
		if less[g] == 0 {
			order = append(order, g)
		}
		less[g]++
	}
	for _, g := range order {
		var err error
		if data, err = n.resize(doc, data, g, -less[g]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// resize changes the number of machines of one group in the document; of a pool that scales, what is remembered of it.
func (n *nodeChange) resize(doc *v1alpha1.Cluster, data []byte, g wanted.Group, by int) ([]byte, error) {
	to := g.Replicas + by
	if p := scaling.Find(doc, g.Pool); p != nil && g.Role == provider.Worker {
		if n.sizes == nil {
			n.sizes = map[string]int{}
		}
		n.sizes[g.Pool] = cluster.SizeOf(n.rec, *p) + by
		return data, nil
	}
	switch {
	case doc.Spec.Provider.Hosts != nil:
		return nil, fail.New(fail.Refused, "the document itself names the machines of %s", g).
			Do("edit spec.provider.hosts.machines and apply")
	case g.Role == provider.Gateway:
		return nil, fail.New(fail.Refused, "gateways come in pairs").Do("edit spec.endpoint.gateways.replicas and apply, or use naupegos node replace")
	case g.Role == provider.ControlPlane && to != 1 && to != 3 && to != 5:
		return nil, fail.New(fail.Refused, "%d control-plane machines %s %d make %d, and etcd needs an odd number: 1, 3 or 5", g.Replicas, moreOrLess(by), max(by, -by), to).
			Do("%s", oddHint(g, by))
	case to < 0:
		return nil, fail.New(fail.Refused, "%s has %d machines, %d are to go", g, g.Replicas, -by)
	}
	return wanted.SetReplicas(data, g.Role, g.Pool, to)
}

func moreOrLess(by int) string {
	if by < 0 {
		return "less"
	}
	return "and"
}

func oddHint(g wanted.Group, by int) string {
	if by > 0 {
		return "add two at a time, up to five: --count 2"
	}
	if g.Replicas == 1 {
		return "a cluster without a control plane is none: naupegos destroy"
	}
	return "remove two together, or put another machine in its place with naupegos node replace"
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
