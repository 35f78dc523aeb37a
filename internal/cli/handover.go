package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
