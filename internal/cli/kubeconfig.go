package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
)

func newKubeconfigCmd(a *App) *cobra.Command {
	var file string
	var merge bool
	c := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the administrator's kubeconfig, write it to a file, or merge it into yours",
		Long: `Print a kubeconfig that makes its holder an administrator of the cluster. It holds a private key: keep it where only you can
read it. --file writes it to a file of mode 0600, replacing what was there.

--merge adds it to the file that kubectl uses: the first one that $KUBECONFIG names, else ~/.kube/config. The context gets the
cluster's name and becomes the current one; other clusters, users and contexts stay as they are.`,
		Example: `  naupegos kubeconfig demo --merge && kubectl get nodes
  naupegos kubeconfig demo --file demo.kubeconfig && kubectl --kubeconfig demo.kubeconfig get nodes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if merge && file != "" {
				return fail.New(fail.Invalid, "--merge and --file exclude each other").Do("KUBECONFIG=%s with --merge merges into that file", file)
			}
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				return s.kubeconfig(cmd.Context(), args[0], file, merge)
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "write it to this file (mode 0600) instead of standard output")
	c.Flags().BoolVar(&merge, "merge", false, "merge it into $KUBECONFIG or ~/.kube/config, and make it the current context")
	return c
}

func (s *session) kubeconfig(ctx context.Context, name, file string, merge bool) error {
	conf, err := s.cluster.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	switch {
	case merge:
		path, replaced, err := kube.MergeKubeconfig(conf, name)
		if err != nil {
			return err
		}
		done := "added"
		if replaced {
			done = "replaced"
		}
		_, err = fmt.Fprintf(s.app.Out, "context %s %s in %s; it is the current one\n", name, done, path)
		return err
	case file != "":
		if err := cluster.WritePrivate(file, func(w io.Writer) error { _, err := w.Write(conf); return err }); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "write the kubeconfig of cluster %s", name)
		}
		_, err := fmt.Fprintf(s.app.Out, "%s (mode 0600): administrator of cluster %s\n", file, name)
		return err
	}
	_, err = s.app.Out.Write(conf)
	return err
}
