package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/adopt"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/cluster/login"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/api"
)

func newHandoverCmd(a *App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "handover [NAME] DIR",
		Short: "Write a directory with everything that a cluster's new operator needs",
		Long: `Write a directory (0700) for the operator who takes over a cluster. It contains the administrator's
kubeconfig; an ssh configuration with jump hosts, pinned host keys and the cluster's SSH key; in a cloud, a clouds.yaml
with a credential of its own that expires with the kubeconfig; a WireGuard configuration for each peer; and a README
that says what the cluster is, how to reach it and what expires when. NAME may be left out if there is only one
cluster. The directory is written completely or not at all. An existing one is replaced only with --force, and only if
it is a handover.`,
		Example: "  naupegos handover demo ./demo-handover\n  naupegos handover demo ./demo-handover --force",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, dir := "", args[len(args)-1]
			if len(args) == 2 {
				name = args[0]
			} else {
				var err error
				if name, err = onlyCluster(cmd.Context(), a); err != nil {
					return err
				}
			}
			return handOverCluster(cmd.Context(), a, name, dir, force)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return clusterNames(cmd.Context(), a), cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace an existing handover")
	return c
}

// handOverCluster writes a handover into dir.
func handOverCluster(ctx context.Context, a *App, name, dir string, force bool) error {
	now := time.Now()
	if err := handover.CheckPlace(dir, force); err != nil { // before the first question
		return err
	}
	got, err := see(ctx, a, name, operate.Handover, operate.Plainly{})
	if err != nil {
		return err
	}
	if err := handover.Write(dir, name, got.Files, now, force); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s is handed over in %s; begin with README.md.\n  %s\n", name, dir, strings.Join(handover.Names(got.Files), "\n  "))
	return err
}

// onlyCluster returns the cluster to use if the user named none.
func onlyCluster(ctx context.Context, a *App) (string, error) {
	names, err := a.storedNames(ctx)
	if err != nil {
		return "", err
	}
	if len(names) == 1 {
		return names[0], nil
	}
	if len(names) == 0 {
		return "", fail.New(fail.NotFound, "there is no cluster").Do("naupegos apply makes one")
	}
	return "", fail.New(fail.Invalid, "no control-plane host is given").Do("name one of %s", strings.Join(names, ", "))
}

func newReleaseCmd(a *App) *cobra.Command {
	var f runFlags
	var format output.Format
	c := &cobra.Command{
		Use:   "release NAME DIR",
		Short: "Turn a cluster into an ordinary kubeadm cluster, and forget it",
		Long: `Give up a cluster on hosts given by address, while it runs. What remains is an ordinary kubeadm cluster: kubeadm joins
machines, renews certificates and upgrades it. No pod, program or machine is restarted.

  1. DIR gets a handover as naupegos handover writes it, and in addition the authorities and keys (pki/), the document,
     and a README that says what its owner has to do from now on.
  2. The approver of kubelets' serving certificates and the packet filter are removed from the machines. The filter
     knows the machines by name and would keep new ones out. From then on, approve serving certificates with kubectl
     certificate approve, about once a year for each machine.
  3. On each machine, programs become files of their own, the originals of replaced files are put beside them as
     NAME.before-naupegos, and the agent is removed with everything that it stored. If there are several
     gateways, it stays on control-plane machines, where it relays the gateways' adverts.
  4. The store forgets the cluster and its keys; its history stays.

With --server, DIR is on your machine and is written before the server begins; this needs the role admin.

A cluster that differs from its document, or has a machine that does not answer, is refused. So are clusters on
machines that Naupegos created (local, openstack): only Naupegos maintains those. If release is interrupted, run the
same command again; until it has finished, apply refuses.`,
		Example: "  naupegos release demo ./demo-release --dry-run\n  naupegos release demo ./demo-release",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return releaseCluster(cmd.Context(), a, args[0], args[1], &format, &f)
		},
	}
	format.Bind(c)
	f.bind(c)
	return c
}

// releaseCluster plans and carries out a release.
func releaseCluster(ctx context.Context, a *App, name, dir string, format *output.Format, f *runFlags) error {
	write := func(files map[string][]byte) error { // again, if a release has written them before
		return handover.Write(dir, name, files, time.Now(), handover.Released(dir, name))
	}
	if err := handover.CheckPlace(dir, handover.Released(dir, name)); err != nil {
		return err
	}
	v := &verb{asked: operate.Asked{Verb: operate.Release, Cluster: name}, flags: f, out: format}
	v.question = fmt.Sprintf("Release cluster %s to the recipient of %s, and delete it from the store?", name, dir)
	v.here = func(o *operate.Options) {
		o.HandOver = func(files map[string][]byte) error {
			return onStore(ctx, a, "release "+name+" to "+dir, func() error { return write(files) })
		}
	}
	v.taking = func(ctx context.Context, c *client.Client, agreed *operate.Asked) error {
		got, err := client.See(ctx, c, name, operate.ReleaseView, operate.Plainly{})
		if err == nil {
			err = write(got.Files)
		}
		if err == nil {
			agreed.Taken = operate.TakenOf(got.Files)
		}
		return err
	}
	if _, _, err := a.carry(ctx, v); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "Cluster %s is its owner's and runs on; Naupegos has forgotten it. All that is needed is in %s; begin with README.md.\n", name, dir)
	return err
}

// importFlags are the flags of naupegos import.
type importFlags struct {
	from, user, identity, credential, known string
	port                                    int
	adopt                                   bool
	out                                     output.Format
	run                                     runFlags
}

func newImportCmd(a *App) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import NAME --from ADDRESS {--identity FILE | --credential NAME}",
		Short: "Inspect a cluster that kubeadm created, and take it over",
		Long: `Inspect a cluster that was created with kubeadm on Debian or Ubuntu hosts, over SSH, and print the document that
describes it and how it differs from what naupegos would have created. Nothing is changed. --from is the address of one
of its control-plane hosts; the others are found through it, and reached at their nodes' internal addresses. The host
keys must be known: --known-hosts.

The differences are printed as comments above the document, the worst last:
  stays     it is left as it is, now and by every apply
  changes   apply changes it to what naupegos uses everywhere; the comment says what restarts
  lost      apply removes a setting that no document can hold: --adopt requires --consent ` + cluster.ConsentLost + `
  blocks    the cluster can't be taken over; the comment says what to do about it

--adopt takes the cluster over: its document, authorities and keys go into the store, and an agent on each host
records whose the host is. Nothing that runs is changed or restarted. naupegos plan then shows what the first apply
would do. If import is interrupted, run the same command again.

With --server, the server logs in: --identity is then the full path of a file on the server, and the addresses must be
reachable from there. --known-hosts is a file on your machine.

Exit status without --adopt: 0 if the cluster can be taken over, 4 if something blocks, any other on errors.`,
		Example: `  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 > cluster.yaml
  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 -o json | jq '.gaps[] | select(.kind == "blocks")'
  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 --adopt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importCluster(cmd.Context(), a, args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "address of a control-plane host")
	c.Flags().StringVar(&f.user, "user", "root", "user to log in as: root, or a user with passwordless sudo")
	c.Flags().IntVar(&f.port, "port", 22, "SSH port of all hosts")
	c.Flags().StringVar(&f.identity, "identity", "", "file with the private SSH key to log in with")
	c.Flags().StringVar(&f.credential, "credential", "", "credential with the private SSH key, in place of --identity; a server takes nothing else")
	c.Flags().StringVar(&f.known, "known-hosts", "~/.ssh/known_hosts", "file with the hosts' SSH host keys, as ssh and ssh-keyscan write it")
	c.Flags().BoolVar(&f.adopt, "adopt", false, "take the cluster over")
	f.out.Bind(c)
	f.run.bind(c)
	return c
}

func importCluster(ctx context.Context, a *App, name string, f *importFlags) error {
	c, err := a.server()
	if err != nil {
		return err
	}
	way, err := f.way(c != nil)
	if err != nil {
		return err
	}
	if f.adopt {
		v := &verb{asked: operate.Asked{Verb: "import", Cluster: name, Import: way}, flags: &f.run, question: fmt.Sprintf("Take over cluster %s?", name)}
		_, done, err := a.carry(ctx, v)
		if err == nil {
			_, err = fmt.Fprintln(a.Out, done.Said)
		}
		return err
	}
	report, write, err := foreign(ctx, a, c, name, way)
	if err != nil {
		return err
	}
	if err := f.out.Print(a.Out, report, write); err != nil {
		return err
	}
	if !report.Adoptable {
		return exitCode(fail.Refused.ExitCode())
	}
	return nil
}

// foreign examines a foreign cluster, here or through a server.
func foreign(ctx context.Context, a *App, c *client.Client, name string, way *operate.Import) (r adopt.Report, write func(io.Writer) error, err error) {
	if c != nil {
		got, err := c.Foreign(ctx, api.ForeignRequest{Cluster: name, Import: *way})
		if err != nil {
			return r, nil, err
		}
		if err := json.Unmarshal(got.Report, &r); err != nil {
			return r, nil, fail.Wrap(fail.Internal, err, "read the server's answer")
		}
		return r, func(w io.Writer) error { _, err := io.WriteString(w, got.Text); return err }, nil
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return r, nil, err
	}
	defer st.Close()
	f, err := operate.ReadForeign(ctx, st, name, *way, nil)
	if err != nil {
		return r, nil, err
	}
	return f.Report(), f.Write, f.Close()
}

// way returns the way to the hosts: the key is a file on the host that does the work, and the host keys are from this user's known_hosts.
func (f *importFlags) way(afar bool) (*operate.Import, error) {
	switch {
	case f.from == "":
		return nil, fail.New(fail.Invalid, "no control-plane host is given").Do("name one of its control-plane hosts: --from ADDRESS")
	case f.identity == "" && f.credential == "":
		return nil, fail.New(fail.Invalid, "no SSH key is given").Do("--identity FILE names a private SSH key; with --server, --credential NAME names one that the server has")
	case f.identity != "" && f.credential != "":
		return nil, fail.New(fail.Invalid, "an SSH key is given by a file and by a credential").Do("give --identity or --credential")
	}
	i := &operate.Import{From: f.from, User: f.user, Port: f.port, Identity: f.identity, Credential: f.credential}
	if !afar && f.identity != "" {
		var err error
		if i.Identity, err = login.Path(f.identity); err == nil {
			_, err = os.Stat(i.Identity)
		}
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the key that logs in")
		}
	}
	text, err := login.ReadFile(f.known)
	i.KnownHosts = string(text)
	if err != nil {
		err = fail.Wrap(fail.Invalid, err, "read the known host keys").Do("ssh-keyscan HOST in a trusted network prints such a file; name it with --known-hosts")
	}
	return i, err
}
