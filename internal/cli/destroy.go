package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

func newDestroyCmd(a *App) *cobra.Command {
	var f runFlags
	var keepVolumes bool
	c := &cobra.Command{
		Use:   "destroy NAME",
		Short: "Remove a cluster with all its machines, and verify that nothing is left",
		Long: `Remove every machine, network and record of the cluster, and verify that nothing is left. Machines given by address
are cleaned and left running. One that does not answer can't be cleaned: --consent ` + nodes.ConsentLeave + ` leaves it as it is.

In a cloud, what the cluster created for Services and PersistentVolumeClaims is deleted first; if the cluster's API
does not answer, it is deleted after the machines.

The cluster's data is lost. Nothing that belongs to others is touched. To agree, type the cluster's name. A document
with spec.protect: true refuses destroy until an apply has removed that field.`,
		Example: "  naupegos destroy demo\n  naupegos destroy demo --yes\n  naupegos destroy demo --keep-volumes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return destroy(cmd.Context(), a, args[0], keepVolumes, &f)
		},
	}
	c.Flags().BoolVar(&keepVolumes, "keep-volumes", false, "keep the volumes of PersistentVolumeClaims in the cloud")
	f.bind(c)
	f.consents.Known = []string{nodes.ConsentLeave}
	return c
}

func destroy(ctx context.Context, a *App, name string, keepVolumes bool, f *runFlags) error {
	f.typed = name
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Destroy, Cluster: name, KeepVolumes: keepVolumes}, flags: f, question: fmt.Sprintf("Destroy cluster %s and all its data?", name)})
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.Out, done.Text(name))
	return err
}

func newResetCmd(a *App) *cobra.Command {
	var f runFlags
	var o removal.ResetOptions
	var format output.Format
	c := &cobra.Command{
		Use:   "reset NAME",
		Short: "Remove Kubernetes from machines and keep the machines",
		Long: `Remove Kubernetes from all machines of a cluster: pods, etcd and its data, programs, units, files, networks, kernel
settings and the Debian packages that Naupegos installed. What was there before is restored. The cluster's
data is lost.

What stays: the document; the machines with their names, addresses, disks and SSH keys; a cloud's networks, load
balancer and floating IPs; WireGuard keys; history and backups. It removes authorities, certificates, the keys of
service accounts and of encrypted Secrets. naupegos apply then builds a new cluster on the same machines, which
accepts no kubeconfig or token of the old one.

In a cloud, what the cluster created for Services and PersistentVolumeClaims is deleted first, and its credential is
revoked.

--machine resets one machine: it is drained, leaves etcd and Kubernetes as a replaced machine does, and is cleaned.
The next apply joins it again. The only control-plane machine, or one that etcd's quorum needs, is refused.

A machine that is off or does not answer can't be cleaned. With --consent ` + nodes.ConsentLeave + `, a reset of the whole cluster
leaves it as it is, and apply refuses to build on it until reset --machine has cleaned it. If reset is interrupted,
run the same command again; until it has finished, apply refuses.`,
		Example: `  naupegos reset demo --dry-run
  naupegos reset demo
  naupegos reset demo --machine demo-general-2
  naupegos reset demo --keep-volumes --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Machine != "" && o.KeepVolumes {
				return fail.New(fail.Invalid, "--machine and --keep-volumes exclude each other").Do("one machine gives no volume back")
			}
			return reset(cmd.Context(), a, args[0], o, &format, &f)
		},
	}
	c.Flags().StringVar(&o.Machine, "machine", "", "reset this machine only (default: all)")
	c.Flags().BoolVar(&o.KeepVolumes, "keep-volumes", false, "keep the volumes of PersistentVolumeClaims in the cloud")
	format.Bind(c)
	f.bind(c)
	f.consents.Known = []string{nodes.ConsentLeave}
	return c
}

func reset(ctx context.Context, a *App, name string, o removal.ResetOptions, format *output.Format, f *runFlags) error {
	v := &verb{asked: operate.Asked{Verb: "reset", Cluster: name, Machine: o.Machine, KeepVolumes: o.KeepVolumes}, flags: f, out: format}
	v.question, f.typed = fmt.Sprintf("Remove Kubernetes from all machines of cluster %s, and lose its data?", name), name
	if o.Machine != "" {
		f.typed = ""
		v.question = fmt.Sprintf("Remove Kubernetes from %s?", o.Machine)
	}
	if _, _, err := a.carry(ctx, v); err != nil {
		return err
	}
	if o.Machine != "" {
		_, err := fmt.Fprintf(a.Out, "Machine %s is clean and out of the cluster; naupegos apply joins it again.\n", o.Machine)
		return err
	}
	_, err := fmt.Fprintf(a.Out, "The machines of cluster %s are clean; naupegos apply builds another cluster on them. Kubeconfigs of the former one are of no use any more.\n", name)
	return err
}

func newBackupVolumesCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "volumes NAME",
		Short: "Compare a cluster's PersistentVolumes with its cloud's volumes",
		Long: `List the volumes about which a cluster on OpenStack and Cinder disagree, as they may after a restore: a
PersistentVolume whose volume is gone, broken, or attached to a server outside of the cluster (elsewhere), and volumes
that the cluster created but no PersistentVolume names (orphaned). Nothing is changed or deleted. naupegos backup
restore prints the same list at its end.`,
		Example: "  naupegos backup volumes demo\n  naupegos backup volumes demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			odd, err := see(cmd.Context(), a, args[0], operate.Volumes, operate.Plainly{})
			if err != nil {
				return err
			}
			return out.Print(a.Out, odd.Items, func(w io.Writer) error { return volumeTable(w, args[0], odd.Items) })
		},
	}
	out.Bind(c)
	return c
}

// volumeTable shows the volumes about which a cluster and its cloud disagree.
func volumeTable(w io.Writer, name string, odd []removal.OddVolume) error {
	if len(odd) == 0 {
		_, err := fmt.Fprintf(w, "The volumes of cluster %s are as its PersistentVolumes say.\n", name)
		return err
	}
	fmt.Fprintf(w, "Volumes on which cluster %s and its cloud disagree; nothing was changed:\n", name)
	t := output.NewTable(w)
	t.Head("IS\tVOLUME\tPERSISTENTVOLUME\tCLAIM\tSTATE\tSERVER")
	for _, v := range odd {
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\n", v.Is, v.Volume, cmp.Or(v.PersistentVolume, "-"), cmp.Or(v.Claim, "-"), cmp.Or(v.State, "-"), cmp.Or(v.Server, "-"))
	}
	return t.Flush()
}
