package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/savedplan"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
)

func newApplyCmd(a *App) *cobra.Command {
	var file string
	var f runFlags
	var only partsFlag
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Build the cluster, or bring it to what the document says",
		Long: `Compare the document with what is there and do what is missing: machines, control plane, workers, network, DNS.
Where the work was interrupted, by a crash or by you, the same command goes on. Scaling is editing replicas and applying.

The plan is shown and asked for; with --yes it is shown only. Where it turns out later that there is more to do, that is shown and asked
for as well. Until you agree nothing is stored, made or reserved.

With --only it is a part of the cluster that is built or changed, as where one team has the machines and another one the cluster:
infrastructure (what the provider makes), gateways, cluster (control plane, nodes, pod network), addons (the cloud's controllers) and test. The
plan says what it leaves out. What can't come before another part waits for it: of a new cluster they come in this order. --only test runs the
smoke tests also where nothing has changed.

A PLAN that naupegos plan --out saved is carried out without asking. It is refused, with the differences and exit status 6, where what is
there has changed since; a plan that gives something up still needs --consent.

The first Ctrl-C lets running steps end; a second one stops at once. Both leave a state from which apply goes on.`,
		Example: `  naupegos apply -f cluster.yaml
  naupegos apply -f cluster.yaml --yes
  naupegos apply -f cluster.yaml --only infrastructure
  naupegos apply -f - --yes < cluster.yaml
  naupegos plan -f cluster.yaml --out cluster.plan; naupegos apply cluster.plan`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.applyDocument(cmd.Context(), file, only, &f)
			case only != nil:
				return fail.New(fail.Invalid, "--only and the saved plan %s exclude each other", args[0]).Do("naupegos plan --only --out saves the plan of a part")
			case file != "":
				return fail.New(fail.Invalid, "-f %s and %s exclude each other", file, args[0]).Do("-f names a document, an argument a saved plan")
			}
			return a.applySaved(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	only.bind(c)
	f.bind(c)
	return c
}

func (a *App) applyDocument(ctx context.Context, file string, only []parts.Part, f *runFlags) error {
	doc, data, err := a.readDocument(file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "apply", readOnly: true, bundle: bundles.Made, newest: f.consents.has(cluster.ConsentBundle)})
	if err != nil {
		return located(err, file, data)
	}
	defer s.Close()
	s.Cluster.Only(only)
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	return s.apply(ctx, file, doc, data, only, first, a.terms(f, doc))
}

// apply goes from the first plan to a cluster that is as the document says, and says so.
func (s *session) apply(ctx context.Context, file string, doc *v1alpha1.Cluster, data []byte, only []parts.Part, first *cluster.Applied, t operate.Terms) error {
	began := time.Now()
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, data) }
	changed, err := s.Converge(ctx, first, t)
	if err != nil {
		return err
	}
	if only != nil {
		return s.partDone(doc.Metadata.Name, file, only, first.Plan, changed)
	}
	if !changed {
		fmt.Fprintf(s.app.Out, "No changes: cluster %s is as %s says.\n", doc.Metadata.Name, file)
		return nil
	}
	return s.handOver(ctx, doc, time.Since(began))
}

// partDone says that parts of the cluster are as the document says.
func (s *session) partDone(name, file string, only []parts.Part, first *plan.Plan, changed bool) error {
	if changed {
		_, err := fmt.Fprintf(s.app.Out, "Done: cluster %s, %s. naupegos plan -f %s says whether there is more.\n", name, parts.Words(only), file)
		return err
	}
	text := fmt.Sprintf("No changes: cluster %s, %s is as %s says.\n", name, parts.Words(only), file)
	for _, what := range first.LeftOut { // an empty plan is not shown
		text += "Left out: " + what + ".\n"
	}
	_, err := io.WriteString(s.app.Out, text)
	return err
}

// handOver says that the cluster is there and what can be done with it.
func (s *session) handOver(ctx context.Context, doc *v1alpha1.Cluster, took time.Duration) error {
	name := doc.Metadata.Name
	_, err := fmt.Fprintf(s.app.Out, `Cluster %[1]s is up (%[2]s).

  naupegos kubectl %[1]s -- get nodes      kubectl from the bundle, as administrator
  naupegos kubeconfig %[1]s --merge        for your own kubectl: context %[1]s
  naupegos status %[1]s                    machines, nodes, etcd, certificates
  naupegos ssh %[1]s MACHINE               a shell on a machine
  naupegos history %[1]s                   what was done, with times
  naupegos destroy %[1]s                   remove everything
`, name, took.Round(100*time.Millisecond))
	return err
}

// applySaved carries out a saved plan. It was reviewed: nobody is asked, unless there turns out to be more to do afterwards.
func (a *App) applySaved(ctx context.Context, file string, f *runFlags) error {
	saved, doc, err := savedplan.Read(file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "apply", readOnly: true, bundle: bundles.Made, newest: f.consents.has(cluster.ConsentBundle), newID: saved.ClusterID})
	if err != nil {
		return located(err, "the document in "+file, []byte(saved.Document))
	}
	defer s.Close()
	s.Cluster.Only(saved.Only)
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	if err := saved.Check(s.Session, first); err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Reviewed = true
	return s.apply(ctx, file, doc, []byte(saved.Document), saved.Only, first, t)
}
