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
		Short: "Upgrade a cluster to another release of Kubernetes, and back",
		Long: `Set the Kubernetes release in the document, and do what apply does. An upgrade takes three hops; each begins when every
machine has completed the one before.

  1. Every machine gets the programs and images of the new release, while everything keeps running.
  2. The API servers, controller managers and schedulers run the new release and behave like the old minor
     (--emulated-version): one control-plane machine after another, etcd's leader last.
  3. Everything runs the new release: after a backup the control plane, machine by machine; then kubeadm's records,
     kube-proxy and CoreDNS; then the workers, drained, at most spec.updates.maxUnavailable of a pool at a time.

The cluster stays after the second hop until you decide. --back returns to the old release and keeps everything that
was written meanwhile. --finish continues with the third hop; after that, only a backup leads back. An upgrade over
several minors finishes those in between by itself. A patch release needs no second hop.

--pause-after MACHINE stops when that machine has been restarted and is healthy again, in the second hop and in the
third. Look at it; the same command without the flag, or naupegos apply, continues with the others.

--pool POOL upgrades only a pool that was kept behind (version in spec.workers), to the release of --to or of the
cluster; its workers are drained.

If an upgrade is interrupted, run the same command or naupegos apply to continue it. Without -f the stored document is
changed; with -f that file is, and its comments are kept. You can also edit spec.kubernetes.version and apply.`,
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
	c.Flags().StringVar(&f.To, "to", "", "Kubernetes release to upgrade to, such as v1.37.2")
	c.Flags().BoolVar(&f.Finish, "finish", false, "complete the upgrade; only a backup leads back afterwards")
	c.Flags().BoolVar(&f.Back, "back", false, "return to the old release, which is possible until --finish")
	c.Flags().StringVar(&f.PauseAfter, "pause-after", "", "stop when this machine has been restarted, in every hop that restarts it")
	c.Flags().StringVar(&f.Pool, "pool", "", "upgrade this pool of workers, which was kept behind")
	n.bind(c)
	return c
}
