package cli

import (
	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/operate"
)

func newUpgradeCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, asked: operate.Asked{Verb: "upgrade"}}
	var f operate.Upgrade
	c := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Bring a cluster to another release of Kubernetes, and back",
		Long: `Set the release that the document wants, and do what apply does: the cluster gets there in hops, the next of which begins once every
machine has made the one before.

  1. What of the new release is used is sent to every machine, while everything runs on.
  2. The API servers, controller managers and schedulers run the new release, and behave as the old minor (--emulated-version): one
     control-plane machine after another, the one whose etcd member leads last.
  3. Everything runs the new release: after a backup the control plane, machine by machine, then the records of kubeadm,
     kube-proxy and CoreDNS, then the workers, drained, as many of a pool at a time as spec.updates.maxUnavailable says.

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
			if err := f.Check(); err != nil {
				return err
			}
			n.asked.Upgrade = &f
			return n.carryOut(cmd.Context(), args[0])
		},
	}
	c.Flags().StringVar(&f.To, "to", "", "the release of Kubernetes, as v1.37.2")
	c.Flags().BoolVar(&f.Finish, "finish", false, "go on beyond the hop from which there is a way back")
	c.Flags().BoolVar(&f.Back, "back", false, "return to the release that the machines still run")
	c.Flags().StringVar(&f.PauseAfter, "pause-after", "", "stop once this machine was restarted, in every hop that restarts it")
	c.Flags().StringVar(&f.Pool, "pool", "", "bring this pool of workers, which stayed behind, to the release")
	c.Flags().BoolVar(&n.dry, "plan", false, "the same as --dry-run")
	n.bind(c)
	return c
}
