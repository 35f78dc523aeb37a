package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/fail"
)

func newHandoverCmd(a *App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "handover [NAME] DIR",
		Short: "Write all that somebody needs who takes a cluster over into a directory",
		Long: `Write a directory (0700) with the administrator's kubeconfig, an ssh configuration with jump hosts, pinned host keys and the
cluster's SSH key, where it lives in a cloud a clouds.yaml with a credential that is made for it and ends with the kubeconfig, a WireGuard
configuration for each peer, and a README that says what the cluster is, how it is reached and what ends when. NAME may be left out
where there is only one cluster. The directory is written whole or not at all; one that exists is replaced only with --force, and only if it is a hand-over.`,
		Example: "  naupegos handover demo ./demo-handover\n  naupegos handover demo ./demo-handover --force",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, dir := "", args[len(args)-1]
			if len(args) == 2 {
				name = args[0]
			} else {
				var err error
				if name, err = a.onlyCluster(cmd.Context()); err != nil {
					return err
				}
			}
			return a.handover(cmd.Context(), name, dir, force)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.clusterNames(cmd.Context()), cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace a former hand-over")
	return c
}

func (a *App) handover(ctx context.Context, name, dir string, force bool) error {
	return a.onCluster(ctx, name, sessionOptions{readOnly: true}, func(s *session) error {
		now := time.Now()
		o := cluster.HandoverOptions{Now: now, CloudsYAML: s.Cluster.CloudsYAML, CloudCA: s.Cluster.CloudCA}
		if err := handover.CheckPlace(dir, force); err != nil { // before anybody is asked
			return err
		}
		files, err := s.Cluster.Handover(ctx, o)
		if err != nil {
			return err
		}
		if err := handover.Write(dir, name, files, now, force); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "Cluster %s is handed over in %s; begin with README.md.\n  %s\n", name, dir, strings.Join(handover.Names(files), "\n  "))
		return err
	})
}

// onlyCluster is the cluster that is meant where none is named.
func (a *App) onlyCluster(ctx context.Context) (string, error) {
	st, err := a.viewStore(ctx)
	if err != nil {
		return "", err
	}
	defer st.Close()
	all, err := st.Clusters(ctx)
	if err != nil {
		return "", err
	}
	if len(all) == 1 {
		return all[0].Name, nil
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	if len(all) == 0 {
		return "", fail.New(fail.NotFound, "there is no cluster").Do("naupegos apply makes one")
	}
	return "", fail.New(fail.Invalid, "which cluster?").Do("name one of %s", strings.Join(names, ", "))
}

func newReleaseCmd(a *App) *cobra.Command {
	var f runFlags
	var dry bool
	var format output.Format
	c := &cobra.Command{
		Use:   "release NAME DIR",
		Short: "Forget a cluster, and leave an ordinary one of kubeadm's to its owner",
		Long: `Let go of a cluster on hosts given by address, while it runs. What is left is an ordinary cluster of kubeadm's: kubeadm joins machines,
renews certificates and upgrades it. No pod, program or machine is restarted.

  1. DIR gets a hand-over as of naupegos handover, and besides the authorities and keys (pki/), the document, and a README that says what is
     its owner's work from now on.
  2. The approver of kubelets' serving certificates and the packet filter go from the machines. The filter knows the machines by name and
     would keep new ones out; serving certificates are approved by kubectl certificate approve from then on, about once a year for each machine.
  3. On each machine programs become files of their own, originals of files that were replaced lie beside these as NAME.before-naupegos, and the
     agent goes with all that it remembers. On gateways it stays, for keepalived runs it as its health check.
  4. The store forgets the cluster and its keys; its history stays.

A cluster that is not as its document says is refused, and one with a machine that does not answer. So are clusters on machines that are
Naupegos' own (local, openstack): nobody else would keep those. Whatever is interrupted goes on with the same command; until then apply refuses.`,
		Example: "  naupegos release demo ./demo-release --dry-run\n  naupegos release demo ./demo-release",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.release(cmd.Context(), args[0], args[1], dry, &format, &f)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
	format.Bind(c)
	f.bind(c)
	return c
}

func (a *App) release(ctx context.Context, name, dir string, dry bool, format *output.Format, f *runFlags) error {
	options := sessionOptions{verb: "release", readOnly: true, bundle: bundles.Made}
	if dry {
		options.verb, options.bundle = "", bundles.IfHere
	}
	s, doc, err := a.openNamed(ctx, name, options)
	if err != nil {
		return err
	}
	defer s.Close()
	resumed := s.Cluster.Releasing()
	if err := handover.CheckPlace(dir, resumed); err != nil {
		return err
	}
	p, err := s.Cluster.PlanRelease(ctx, cluster.ReleaseOptions{
		HandOver: func(ctx context.Context) error { return s.releaseTo(ctx, dir, resumed) }, Forget: s.Forget,
	})
	if err != nil {
		return err
	}
	if dry {
		return a.printPlan(p, "", format)
	}
	t := a.terms(f, doc)
	t.Question = fmt.Sprintf("Forget cluster %s, and leave it to whoever gets %s?", name, dir)
	t.Commit = func(ctx context.Context) error {
		if err := s.Commit(ctx, s.Record.Document); err != nil {
			return err
		}
		return s.Cluster.BeginRelease(ctx)
	}
	if err := s.CarryOut(ctx, p, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is its owner's and runs on; Naupegos has forgotten it. All that is needed is in %s; begin with README.md.\n", name, dir)
	return err
}

// releaseTo writes the hand-over of a cluster that is released; again where the release was interrupted.
func (s *session) releaseTo(ctx context.Context, dir string, again bool) error {
	now := time.Now()
	files, err := s.Cluster.Handover(ctx, cluster.HandoverOptions{Now: now, CloudsYAML: s.Cluster.CloudsYAML, CloudCA: s.Cluster.CloudCA, Release: true})
	if err != nil {
		return err
	}
	return handover.Write(dir, s.Record.Name, files, now, again)
}
