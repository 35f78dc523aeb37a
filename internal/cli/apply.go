package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

func newApplyCmd(a *App) *cobra.Command {
	var file string
	var f runFlags
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Build the cluster, or bring it to what the document says",
		Long: `Compare the document with what is there and do what is missing: machines, control plane, workers, network, DNS.
Where the work was interrupted, by a crash or by you, the same command goes on. Scaling is editing replicas and applying.

The first Ctrl-C lets running steps end; a second one stops at once. Both leave a state from which apply goes on.`,
		Example: `  naupegos apply -f cluster.yaml
  naupegos apply -f cluster.yaml --yes
  naupegos apply -f - --yes < cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.apply(cmd.Context(), file, &f) },
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	f.bind(c)
	return c
}

func (a *App) apply(ctx context.Context, file string, f *runFlags) error {
	doc, data, err := a.readDocument(file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "apply", readOnly: true, bundle: getBundle})
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	first, err := s.cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	changed, err := s.converge(ctx, run{
		flags: f, step: doc.Spec.Timeouts.Step.Duration, first: first, question: carryOut,
		commit: func(ctx context.Context) error { return s.commit(ctx, "apply", data) },
	})
	if err != nil {
		return err
	}
	if !changed {
		fmt.Fprintf(a.Out, "No changes: cluster %s is as %s says.\n", doc.Metadata.Name, file)
		return nil
	}
	return s.handOver(ctx, doc, time.Since(began))
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
