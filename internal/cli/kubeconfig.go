package cli

import "github.com/spf13/cobra"

func newKubeconfigCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the administrator's kubeconfig",
		Long: `Print a kubeconfig that makes its holder an administrator of the cluster. It holds a private key: keep it in a file that
only you can read.`,
		Example: "  umask 077; naupegos kubeconfig demo > demo.kubeconfig\n  kubectl --kubeconfig demo.kubeconfig get nodes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				conf, err := s.cluster.Kubeconfig(cmd.Context())
				if err != nil {
					return err
				}
				_, err = a.Out.Write(conf)
				return err
			})
		},
	}
}
