package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/remote"
)

// NewSSH returns the verb ssh.
func NewSSH(h Host) *cobra.Command {
	var given passed
	var machine, command string
	c := &cobra.Command{
		Use:   "ssh NAME MACHINE [-- COMMAND...]",
		Short: "Open a shell on a machine, or run a command there",
		Long: `Log in to a machine of the cluster with the cluster's own key (for hosts given by address, with your sshKeyFile) and the
machine's pinned host key. The connection goes through a gateway if there is one; on OpenStack without gateways, through
a machine with a floating IP. MACHINE may lack the cluster's name: cp-1 for demo-cp-1.

As with ssh, the words of COMMAND are joined by blanks, and the machine's shell interprets them: quote what your own
shell is to leave alone, such as pipes. The exit status is that of the remote command.

The flags below that OpenSSH has too are passed to it: with any of them, the program ssh of this host makes the
connection. Its key and configuration then lie in a private temporary directory until the command ends.`,
		Example: `  naupegos ssh demo cp-1
  naupegos ssh demo cp-1 -- journalctl -u kubelet -n 50
  naupegos ssh demo cp-1 -- 'journalctl -u kubelet | tail -3'
  naupegos ssh demo cp-1 -L 2381:127.0.0.1:2381 -N
  naupegos ssh demo cp-1 -t -- top`,
		Args: func(c *cobra.Command, args []string) error {
			names, rest, err := split(c.Flags(), args, 2)
			if err != nil {
				return err
			}
			if len(names) == 2 {
				machine, command = names[1], strings.Join(rest, " ")
			}
			return cobra.MinimumNArgs(2)(c, append(names, rest...))
		},
		RunE: func(c *cobra.Command, args []string) error {
			var status int
			err := h.On(c.Context(), args[0], false, func(s *operate.Session) error {
				full, err := s.Cluster.MachineNamed(c.Context(), machine)
				if err != nil {
					return err
				}
				return h.Noted(c.Context(), s, "ssh to "+full+" of", func() error {
					if len(given) > 0 {
						status, err = h.openSSH(c.Context(), s, full, given, command)
					} else {
						status, err = h.native(c.Context(), s, full, command)
					}
					return err
				})
			})
			if err == nil && status != 0 {
				return h.Exit(status)
			}
			return err
		},
	}
	c.Flags().SetInterspersed(false) // flags after MACHINE's command belong to the command
	given.bind(c.Flags())
	return c
}

// split takes the first n words that are not flags from args, and parses the flags before, between and directly after them. It does not parse
// the rest, whose flags belong to a command.
func split(f *pflag.FlagSet, args []string, n int) (words, rest []string, err error) {
	for rest = args; len(rest) > 0 && len(words) < n; rest = f.Args() {
		words = append(words, rest[0])
		if err := f.Parse(rest[1:]); err != nil {
			return nil, nil, err
		}
	}
	return words, rest, nil
}

// native connects this program's streams with a machine. Without a command it opens a terminal there.
func (h Host) native(ctx context.Context, s *operate.Session, machine, command string) (int, error) {
	in, inOK := h.In.(*os.File)
	out, outOK := h.Out.(*os.File)
	errOut, errOK := h.Err.(*os.File)
	if !inOK || !outOK || !errOK || command != "" {
		return s.Cluster.Shell(ctx, machine, remote.Terminal{In: h.In, Out: h.Out, Err: h.Err}, command)
	}
	t, restore, err := remote.OpenTerminal(in, out, errOut)
	defer restore()
	if err != nil {
		return 0, err
	}
	return s.Cluster.Shell(ctx, machine, t, "")
}

// openSSH connects with OpenSSH.
func (h Host) openSSH(ctx context.Context, s *operate.Session, machine string, flags []string, command string) (status int, err error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return 0, fail.Wrap(fail.NotFound, err, "ssh's own flags need OpenSSH").Do("install openssh-client, or leave %s out", strings.Join(flags, " "))
	}
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "naupegos-ssh-") // 0700
	if err != nil {
		return 0, fail.Wrap(fail.Refused, err, "make a directory for ssh's configuration")
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil && e != nil {
			err = fail.Wrap(fail.Internal, e, "remove ssh's configuration")
		}
	}()
	if _, err := s.Cluster.SSHConfig(ctx, dir); err != nil {
		return 0, err
	}
	args := append([]string{"-F", filepath.Join(dir, "config")}, flags...)
	args = append(args, "--", machine)
	if command != "" {
		args = append(args, command)
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // ssh puts the terminal back
	c.Stdin, c.Stdout, c.Stderr = h.In, h.Out, h.Err
	if in, ok := h.In.(*os.File); ok {
		c.Stdin = in
	}
	signal.Ignore(os.Interrupt) // the terminal sends it to ssh as well, which decides
	defer signal.Reset(os.Interrupt)
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fail.Wrap(fail.KindOf(ctx.Err()), err, "run ssh").At(machine)
	}
	return 0, nil
}

// NewSSHConfig returns the verb ssh-config.
func NewSSHConfig(h Host) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "ssh-config NAME",
		Short: "Write an ssh configuration for a cluster's machines",
		Long: `Write a directory (0700) with an ssh configuration, and print how to use it. config names every machine and its jump
hosts: the gateways or, on OpenStack without gateways, machines with a floating IP. known_hosts has the pinned host keys.
The cluster's private key is written as well; for hosts given by address, config refers to your sshKeyFile instead.`,
		Example: "  naupegos ssh-config demo --dir ~/.ssh/demo\n  ssh -F ~/.ssh/demo/config demo-cp-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return h.On(c.Context(), args[0], false, func(s *operate.Session) error {
				if dir == "" {
					dir = s.SSHDir()
				}
				var machines []string
				err := h.Noted(c.Context(), s, "ssh-config", func() (err error) {
					machines, err = s.Cluster.SSHConfig(c.Context(), dir)
					return err
				})
				if err != nil {
					return err
				}
				for _, m := range machines {
					fmt.Fprintf(h.Out, "ssh -F %s %s\n", filepath.Join(dir, "config"), m)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "directory to write (default: ssh/NAME in the state directory)")
	return c
}
