package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/remote"
)

func newSSHCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh NAME MACHINE [-- COMMAND...]",
		Short: "Open a shell on a machine, or run a command there",
		Long: `Log in to a machine of the cluster with the cluster's own key (for hosts given by address, with your sshKeyFile) and the
machine's pinned host key. The connection goes through a gateway if there is one; on OpenStack without gateways, through
a machine with a floating IP. The exit status is that of the remote command.`,
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
		Short: "Write an ssh configuration for a cluster's machines",
		Long: `Write a directory (0700) with an ssh configuration, and print how to use it. config names every machine and its jump
hosts: the gateways or, on OpenStack without gateways, machines with a floating IP. known_hosts has the pinned host keys.
The cluster's private key is written as well; for hosts given by address, config refers to your sshKeyFile instead.`,
		Example: "  naupegos ssh-config demo --dir ~/.ssh/demo\n  ssh -F ~/.ssh/demo/config demo-cp-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				if dir == "" {
					dir = s.SSHDir()
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
	c.Flags().StringVar(&dir, "dir", "", "directory to write (default: ssh/NAME in the state directory)")
	return c
}

func newLogsCmd(a *App) *cobra.Command {
	var file, dir string
	var since time.Duration
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Collect logs from all machines in a support archive, without secrets",
		Long: `Collect from all machines the logs of their units and containers and a description of each machine, and write them to one
archive, together with the cluster's status, document and history. Machines that do not answer are listed in
problems.json and do not stop the rest.

No key, certificate, kubeconfig or Secret is collected, and every text is searched for the cluster's own secrets and for
anything that looks like a key, token or password. Logs may still contain what workloads write: look through the archive
before you send it to anybody. With --server, the server collects it; this needs the role admin.`,
		Example: "  naupegos logs demo\n  naupegos logs demo --since 10m --file demo.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0] + "-logs-" + time.Now().UTC().Format("20060102T150405Z")
			if file == "" {
				file = filepath.Join(dir, name+".tar.gz")
			}
			return a.logs(cmd.Context(), args[0], file, support.Options{Since: since, Prefix: name})
		},
	}
	c.Flags().StringVar(&file, "file", "", "archive to write (default: NAME-logs-TIME.tar.gz)")
	c.Flags().StringVar(&dir, "dir", ".", "directory of the archive, if --file is not given")
	c.Flags().DurationVar(&since, "since", time.Hour, "how far back the logs go")
	return c
}

func (a *App) logs(ctx context.Context, name, file string, o support.Options) error {
	problems, err := a.collect(ctx, name, file, o)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(a.Err, "not in it: %s %s: %s\n", p.Machine, p.What, p.Error)
	}
	_, err = fmt.Fprintln(a.Out, file)
	return err
}

// collect writes the archive, or has a server make it.
func (a *App) collect(ctx context.Context, name, file string, o support.Options) (problems []support.Problem, err error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		got, err := client.See(ctx, c, name, operate.LogsView, operate.LogsOf{Prefix: o.Prefix, Seconds: seconds(o.Since)})
		if err != nil {
			return nil, err
		}
		return got.Problems, connect.WritePrivate(file, func(w io.Writer) error { _, err := w.Write(got.Archive); return err })
	}
	s, _, err := a.openNamed(ctx, name, sessionOptions{readOnly: true, bundle: bundles.IfHere})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o.Status = func(line string) { fmt.Fprintln(a.Err, line) }
	err = connect.WritePrivate(file, func(w io.Writer) (err error) {
		problems, err = s.Logs(ctx, w, o, version)
		return err
	})
	return problems, err
}
