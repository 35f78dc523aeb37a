package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
)

// upgradeFlags say what is to become of an upgrade.
type upgradeFlags struct {
	to           string
	finish, back bool
	pauseAfter   string
	pool         string
}

func newUpgradeCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "upgrade"}
	var f upgradeFlags
	c := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Bring a cluster to another release of Kubernetes, and back",
		Long: `Set the release that the document wants, and do what apply does: the cluster gets there in hops, the next of which begins once every
machine has made the one before.

  1. What of the new release is used is sent to every machine, while everything runs on.
  2. The API servers, controller managers and schedulers run the new release, and behave as the old minor (--emulated-version): one
     control-plane machine after another, the one whose etcd member leads last.
  3. Everything runs the new release: after a backup the control plane, machine by machine, then the records of kubeadm,
     kube-proxy and CoreDNS, then the workers, drained, as many at a time as spec.updates.maxUnavailable says.

A cluster stays after the second hop. --back returns from there to the old release with all that was written meanwhile; --finish goes on with
the third, from which only a backup leads back. Of several minors those in between are finished by themselves. A patch needs no second hop.

--pause-after MACHINE stops once that machine was restarted and is well again, in the second hop and in the third: look at it, then the same
command without it, or naupegos apply, goes on with the others.

--pool POOL brings a pool that stays behind (version in spec.workers) to the release --to, or to the one that the document has for the cluster,
and nothing else: its workers, drained.

Whatever is interrupted goes on with the same command, or with naupegos apply. Without -f the stored document is changed; with it that file,
whose comments stay. Editing spec.kubernetes.version and applying does the same.`,
		Example: `  naupegos upgrade demo --to v1.37.2 --dry-run
  naupegos upgrade demo --to v1.37.2
  naupegos upgrade demo --to v1.37.2 --pause-after demo-cp-1
  naupegos upgrade demo --finish
  naupegos upgrade demo --pool gpu
  naupegos upgrade demo --back`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			n.name, n.edit = args[0], f.edit(n)
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) {
				c.PauseAfter(f.pauseAfter)
				if f.finish {
					if err := c.Finish(ctx); err != nil {
						return nil, err
					}
				}
				return c.PlanApply(ctx)
			}
			return n.carryOut(cmd.Context())
		},
	}
	c.Flags().StringVar(&f.to, "to", "", "the release of Kubernetes, as v1.37.2")
	c.Flags().BoolVar(&f.finish, "finish", false, "go on beyond the hop from which there is a way back")
	c.Flags().BoolVar(&f.back, "back", false, "return to the release that the machines still run")
	c.Flags().StringVar(&f.pauseAfter, "pause-after", "", "stop once this machine was restarted, in every hop that restarts it")
	c.Flags().StringVar(&f.pool, "pool", "", "bring this pool of workers, which stayed behind, to the release")
	c.Flags().BoolVar(&n.dry, "plan", false, "the same as --dry-run")
	n.bind(c)
	return c
}

// check refuses flags that don't say one thing.
func (f *upgradeFlags) check() error {
	switch {
	case f.back && (f.to != "" || f.finish):
		return fail.New(fail.Invalid, "--back goes with neither --to nor --finish")
	case f.pool != "" && (f.back || f.finish):
		return fail.New(fail.Invalid, "--pool goes with neither --back nor --finish: those are of the whole cluster")
	case f.back || f.pool != "" || f.to != "" || f.finish:
		return nil
	}
	return fail.New(fail.Invalid, "say where the cluster is to get").Do("--to VERSION begins an upgrade, --finish ends one, --back takes it back; naupegos bundle list shows what is here")
}

// edit sets the release that the flags ask for.
func (f *upgradeFlags) edit(n *nodeChange) func(*v1alpha1.Cluster, []byte) ([]byte, error) {
	return func(doc *v1alpha1.Cluster, data []byte) (_ []byte, err error) {
		if f.pool != "" {
			return f.editPool(n, doc, data)
		}
		to := f.to
		if f.back {
			if to, err = cluster.ReleaseBefore(n.rec, doc); err != nil {
				return nil, err
			}
		}
		if to == "" || to == doc.Spec.Kubernetes.Version {
			return data, nil
		}
		if data, err = wanted.SetVersion(data, to); err != nil {
			return nil, err
		}
		if doc, err = v1alpha1.Parse("the document, with --to "+to, data); err != nil {
			return nil, err
		}
		return data, cluster.CheckChanges(n.rec, doc) // before a bundle is made that is not wanted
	}
}

// editPool sets the release of a pool.
func (f *upgradeFlags) editPool(n *nodeChange, doc *v1alpha1.Cluster, data []byte) ([]byte, error) {
	i := slices.IndexFunc(doc.Spec.Workers, func(p v1alpha1.Pool) bool { return p.Name == f.pool })
	if i < 0 {
		return nil, fail.New(fail.NotFound, "cluster %s has no pool %s", doc.Metadata.Name, f.pool).Do("it has %s", poolNames(doc))
	}
	cluster.StayWith(n.rec, doc)
	pool, to := doc.Spec.Workers[i], cmp.Or(f.to, doc.Spec.Kubernetes.Version)
	if pool.Version == to || pool.Version == "" && to == doc.Spec.Kubernetes.Version {
		return data, nil
	}
	data, err := wanted.SetPoolVersion(data, f.pool, to)
	if err != nil {
		return nil, err
	}
	if doc, err = v1alpha1.Parse("the document, with --to "+to, data); err != nil {
		return nil, err
	}
	return data, cluster.CheckChanges(n.rec, doc)
}
