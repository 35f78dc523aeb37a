package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

func newDestroyCmd(a *App) *cobra.Command {
	var f runFlags
	var keepVolumes bool
	c := &cobra.Command{
		Use:   "destroy NAME",
		Short: "Remove a cluster with all its machines, and prove that nothing is left",
		Long: `Remove every machine, network and record of the cluster. Machines given by address are cleaned and left running. One of
them that does not answer can't be cleaned: with --consent ` + cluster.ConsentLeave + ` it is forgotten as it is.
In a cloud, what the cluster itself made for Services and PersistentVolumeClaims is given back first; where its API does not answer, it
is removed once the machines are gone.
The cluster's data is lost. What does not belong to the cluster is never touched.`,
		Example: "  naupegos destroy demo\n  naupegos destroy demo --yes\n  naupegos destroy demo --keep-volumes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.destroy(cmd.Context(), args[0], keepVolumes, &f)
		},
	}
	c.Flags().BoolVar(&keepVolumes, "keep-volumes", false, "leave the volumes of PersistentVolumeClaims in the cloud")
	f.bind(c)
	f.consents.known = []string{cluster.ConsentLeave}
	return c
}

func (a *App) destroy(ctx context.Context, name string, keepVolumes bool, f *runFlags) error {
	s, doc, err := a.openNamed(ctx, name, sessionOptions{verb: "destroy"})
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Cluster.PlanDestroy(ctx, cluster.DestroyOptions{KeepVolumes: keepVolumes, Forget: s.forget})
	if err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Question = fmt.Sprintf("Destroy cluster %s and all its data?", name)
	if err := s.CarryOut(ctx, p, t); err != nil {
		return err
	}
	kept, err := s.Cluster.KeptVolumes(ctx)
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "cluster %s is gone; list the volumes that are kept", name)
	}
	if len(kept) > 0 {
		_, err = fmt.Fprintf(a.Out, "Cluster %s is gone. Kept of it are:\n  %s\n", name, strings.Join(kept, "\n  "))
		return err
	}
	if left := leftBehind(p); len(left) > 0 {
		_, err = fmt.Fprintf(a.Out, "Cluster %s is gone. What was put on these machines is there still; install them anew before you use them: %s\n",
			name, strings.Join(left, ", "))
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is gone; nothing of it is left.\n", name)
	return err
}

// leftBehind lists machines that were forgotten and not cleaned.
func leftBehind(p *plan.Plan) (names []string) {
	for _, s := range p.Steps {
		if s.Consent == cluster.ConsentLeave {
			names = append(names, s.Subject)
		}
	}
	return names
}

// forget removes what the store and its directory hold of the cluster: keys, and the ssh configuration with its copy of one.
// The history and the backups stay.
func (s *session) forget(ctx context.Context) error {
	if err := os.RemoveAll(s.sshDir()); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the ssh configuration")
	}
	return s.Store.DeleteCluster(ctx, s.Record.ID)
}
