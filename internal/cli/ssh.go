package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/remote"
)

func newSSHCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh NAME MACHINE [-- COMMAND...]",
		Short: "Open a shell on a machine, or run a command there",
		Long: `Log in to a machine of the cluster, through a gateway where there is one (on OpenStack without gateways through a machine with
a floating IP), with the cluster's own key, or your sshKeyFile for hosts given by address, and the host key that is pinned for the
machine. The exit status is the remote command's.`,
		Example: "  naupegos ssh demo demo-cp-1\n  naupegos ssh demo demo-cp-1 -- journalctl -u kubelet -n 50",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				code, err := s.shell(cmd.Context(), args[1], args[2:])
				if err == nil && code != 0 {
					return exitCode(code)
				}
				return err
			})
		},
	}
}

// shell connects this program's streams with a machine; with a terminal of its own where nothing but a shell is wanted.
func (s *session) shell(ctx context.Context, machine string, argv []string) (int, error) {
	in, inOK := s.app.In.(*os.File)
	out, outOK := s.app.Out.(*os.File)
	errOut, errOK := s.app.Err.(*os.File)
	if !inOK || !outOK || !errOK || len(argv) > 0 {
		return s.Cluster.Shell(ctx, machine, remote.Terminal{In: s.app.In, Out: s.app.Out, Err: s.app.Err}, argv...)
	}
	t, restore, err := remote.OpenTerminal(in, out, errOut)
	defer restore()
	if err != nil {
		return 0, err
	}
	return s.Cluster.Shell(ctx, machine, t, argv...)
}

func newSSHConfigCmd(a *App) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "ssh-config NAME",
		Short: "Write an ssh configuration, key and known hosts for a cluster's machines",
		Long: `Write into a directory (0700): config, with every machine under its name and, as jump hosts, the gateways or, on OpenStack
without gateways, machines with a floating IP; known_hosts with the pinned host keys; and the cluster's private key. For hosts given by
address no key is written: config points at your sshKeyFile. Print how to use them.`,
		Example: "  naupegos ssh-config demo --dir ~/.ssh/demo\n  ssh -F ~/.ssh/demo/config demo-cp-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				if dir == "" {
					dir = s.sshDir()
				}
				machines, err := s.Cluster.SSHConfig(cmd.Context(), dir)
				if err != nil {
					return err
				}
				for _, m := range machines {
					fmt.Fprintf(a.Out, "ssh -F %s %s\n", filepath.Join(dir, "config"), m)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "where to write (default: the store's directory)")
	return c
}

// sshDir is where the cluster's ssh configuration lies unless the user says otherwise.
func (s *session) sshDir() string { return filepath.Join(s.Store.Dir(), "ssh", s.Record.Name) }
