package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/adopt"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/remote"
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
	now := time.Now()
	if err := handover.CheckPlace(dir, force); err != nil { // before anybody is asked
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

// onlyCluster is the cluster that is meant where none is named.
func (a *App) onlyCluster(ctx context.Context) (string, error) {
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

// importFlags are those of naupegos import.
type importFlags struct {
	from, user, identity, known string
	port                        int
	adopt                       bool
	out                         output.Format
	run                         runFlags
}

func newImportCmd(a *App) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import NAME --from ADDRESS --identity FILE",
		Short: "Look at a cluster that kubeadm has made, and take it over",
		Long: `Look at a cluster that somebody has made with kubeadm, on Debian or Ubuntu hosts that are reached by SSH, and say which document describes it
and where it differs from what naupegos would have made. Nothing is changed. --from is the address of one of its control-plane hosts; the
others are found by it, and reached at their nodes' internal addresses. Host keys have to be known: --known-hosts.

What differs stands in comments above the document, the worst last:
  stays     it is left as it is, now and by every apply
  changes   an apply brings it to what naupegos has everywhere; what restarts by that is said
  lost      an apply takes a setting away that no document can hold: --adopt asks for --consent ` + cluster.ConsentLost + `
  blocks    the cluster can't be taken over, and what to do about it

With --adopt the cluster is taken over: its document, authorities and keys go into the store, and on each host an agent notes whose the host is.
Nothing that runs is changed or restarted. naupegos plan then shows what the first apply would do. Whatever is interrupted goes on with the same command.

Exit status without --adopt: 0 where the cluster can be taken over, 4 where something blocks, another one for errors.`,
		Example: `  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 > cluster.yaml
  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 -o json | jq '.gaps[] | select(.kind == "blocks")'
  naupegos import demo --from 10.0.0.11 --user debian --identity ~/.ssh/id_ed25519 --adopt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importCluster(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "address of a control-plane host")
	c.Flags().StringVar(&f.user, "user", "root", "who logs in: root, or one who may use sudo without a password")
	c.Flags().IntVar(&f.port, "port", 22, "port of SSH on all hosts")
	c.Flags().StringVar(&f.identity, "identity", "", "file with the private SSH key that logs in")
	c.Flags().StringVar(&f.known, "known-hosts", "~/.ssh/known_hosts", "file with the hosts' SSH host keys, as ssh and ssh-keyscan write it")
	c.Flags().BoolVar(&f.adopt, "adopt", false, "take the cluster over")
	f.out.Bind(c)
	f.run.bind(c)
	return c
}

func (a *App) importCluster(ctx context.Context, name string, f *importFlags) (err error) {
	id, err := a.importable(ctx, name)
	if err != nil {
		return err
	}
	way, keyFile, err := f.way()
	if err != nil {
		return err
	}
	r, err := adopt.NewReader(way)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	found, err := r.Read(ctx)
	if err != nil {
		return err
	}
	draft, err := adopt.New(adopt.Options{Name: name, ID: id, KeyFile: keyFile, User: f.user, Port: f.port}, found)
	if err != nil {
		return err
	}
	if f.adopt {
		return a.adopt(ctx, draft, found, r, f)
	}
	if err := f.out.Print(a.Out, draft.Report(), draft.Write); err != nil {
		return err
	}
	if len(draft.Of(adopt.Blocks)) > 0 {
		return exitCode(fail.Refused.ExitCode())
	}
	return nil
}

// importable refuses a cluster that is known already, and returns the ID of one that is being taken over; empty where none is.
func (a *App) importable(ctx context.Context, name string) (string, error) {
	st, err := a.viewStore(ctx)
	if err != nil {
		return "", err
	}
	defer st.Close()
	rec, err := st.Cluster(ctx, name)
	switch {
	case fail.KindOf(err) == fail.NotFound:
		return "", nil
	case err != nil:
		return "", err
	case cluster.Importing(rec):
		return rec.ID, nil
	}
	return "", fail.New(fail.Conflict, "there is a cluster %s already", name).Do("naupegos status %s shows it; choose another name for one that is not known yet", name)
}

// way says how the hosts are reached, and returns the absolute path of the key's file.
func (f *importFlags) way() (w adopt.Way, keyFile string, err error) {
	switch {
	case f.from == "":
		return w, "", fail.New(fail.Invalid, "which cluster?").Do("name one of its control-plane hosts: --from ADDRESS")
	case f.identity == "":
		return w, "", fail.New(fail.Invalid, "by which key are its hosts logged in to?").Do("--identity FILE names a private SSH key")
	}
	if keyFile, err = cluster.KeyPath(f.identity); err != nil {
		return w, "", err
	}
	known, err := cluster.KeyPath(f.known)
	if err != nil {
		return w, "", err
	}
	w = adopt.Way{From: f.from, User: f.user, Port: f.port}
	if w.Key, err = os.ReadFile(keyFile); err != nil {
		return w, "", fail.Wrap(fail.Invalid, err, "read the key that logs in")
	}
	w.Known, err = remote.ReadKnown(known)
	return w, keyFile, err
}

// adopt takes over what was found.
func (a *App) adopt(ctx context.Context, draft *adopt.Draft, found *adopt.Found, r *adopt.Reader, f *importFlags) error {
	doc, err := draft.Cluster()
	if err != nil {
		return err
	}
	given := &cluster.Given{}
	if given.Secrets, err = draft.Secrets(); err != nil {
		return err
	}
	if given.Facts, err = draft.Facts(ctx); err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "import", readOnly: true, given: given})
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Cluster.PlanImport(cluster.ImportOptions{Lost: draft.Lost(), Changed: func(ctx context.Context) (string, error) {
		now, err := r.Read(ctx)
		if err != nil {
			return "", err
		}
		return found.Changed(now), nil
	}})
	if err != nil {
		return err
	}
	t := a.terms(&f.run, doc)
	t.Question = fmt.Sprintf("Take cluster %s over?", doc.Metadata.Name)
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, draft.Document) }
	if err := s.CarryOut(ctx, p, t); err != nil {
		return err
	}
	name := doc.Metadata.Name
	_, err = fmt.Fprintf(a.Out, "Cluster %s is taken over; nothing of it was changed.\n  naupegos document %s > cluster.yaml    its document\n  naupegos plan -f cluster.yaml    what the first apply would do\n", name, name)
	return err
}
