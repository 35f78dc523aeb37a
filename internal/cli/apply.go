package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/rehearse"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/savedplan"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server/work"
)

func newApplyCmd(a *App) *cobra.Command {
	var file string
	var f runFlags
	var only partsFlag
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Build the cluster, or bring it to what the document says",
		Long: `Compare the document with what is there and do what is missing: machines, control plane, workers, network, DNS.
Where the work was interrupted, by a crash or by you, the same command goes on. Scaling is editing replicas and applying.

The plan is shown and asked for; with --yes it is shown only. Where it turns out later that there is more to do, that is shown and asked
for as well. Until you agree nothing is stored, made or reserved.

With --only it is a part of the cluster that is built or changed, as where one team has the machines and another one the cluster:
infrastructure (what the provider makes), gateways, cluster (control plane, nodes, pod network), addons (the cloud's controllers) and test. The
plan says what it leaves out. What can't come before another part waits for it: of a new cluster they come in this order. --only test runs the
smoke tests also where nothing has changed.

A PLAN that naupegos plan --out saved is carried out without asking. It is refused, with the differences and exit status 6, where what is
there has changed since; a plan that gives something up still needs --consent.

The first Ctrl-C lets running steps end; a second one stops at once. Both leave a state from which apply goes on.`,
		Example: `  naupegos apply -f cluster.yaml
  naupegos apply -f cluster.yaml --yes
  naupegos apply -f cluster.yaml --only infrastructure
  naupegos apply -f - --yes < cluster.yaml
  naupegos plan -f cluster.yaml --out cluster.plan; naupegos apply cluster.plan`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.applyDocument(cmd.Context(), file, only, &f)
			case only != nil:
				return fail.New(fail.Invalid, "--only and the saved plan %s exclude each other", args[0]).Do("naupegos plan --only --out saves the plan of a part")
			case file != "":
				return fail.New(fail.Invalid, "-f %s and %s exclude each other", file, args[0]).Do("-f names a document, an argument a saved plan")
			}
			return a.applySaved(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	only.bind(c)
	f.bind(c)
	return c
}

func (a *App) applyDocument(ctx context.Context, file string, only []parts.Part, f *runFlags) error {
	doc, data, err := a.readDocument(file)
	if err != nil {
		return err
	}
	asked := operate.Asked{Verb: operate.Apply, Document: string(data), From: shownFile(file), Only: only, NewBundle: f.consents.has(cluster.ConsentBundle)}
	began := time.Now()
	first, done, err := a.carry(ctx, &verb{asked: asked, flags: f})
	if err != nil {
		return located(err, file, data)
	}
	return a.applied(doc.Metadata.Name, file, only, first, done.Changed, time.Since(began))
}

// apply goes from the first plan to a cluster that is as the document says, and says so.
func (a *App) apply(ctx context.Context, file string, b *operate.Begun, t operate.Terms) error {
	began := time.Now()
	done, err := b.CarryOut(ctx, t)
	if err != nil {
		return err
	}
	return a.applied(b.Record.Name, file, b.Asked.Only, b.First.Plan, done.Changed, time.Since(began))
}

// applied says what has come of an apply.
func (a *App) applied(name, file string, only []parts.Part, first *plan.Plan, changed bool, took time.Duration) error {
	switch {
	case only != nil:
		return a.partDone(name, file, only, first, changed)
	case !changed:
		_, err := fmt.Fprintf(a.Out, "No changes: cluster %s is as %s says.\n", name, file)
		return err
	}
	return a.handOver(name, took)
}

// partDone says that parts of the cluster are as the document says.
func (a *App) partDone(name, file string, only []parts.Part, first *plan.Plan, changed bool) error {
	if changed {
		_, err := fmt.Fprintf(a.Out, "Done: cluster %s, %s. naupegos plan -f %s says whether there is more.\n", name, parts.Words(only), file)
		return err
	}
	text := fmt.Sprintf("No changes: cluster %s, %s is as %s says.\n", name, parts.Words(only), file)
	for _, what := range first.LeftOut { // an empty plan is not shown
		text += "Left out: " + what + ".\n"
	}
	_, err := io.WriteString(a.Out, text)
	return err
}

// handOver says that the cluster is there and what can be done with it.
func (a *App) handOver(name string, took time.Duration) error {
	_, err := fmt.Fprintf(a.Out, `Cluster %[1]s is up (%[2]s).

  naupegos kubectl %[1]s -- get nodes      kubectl from the bundle, as administrator
  naupegos kubeconfig %[1]s --merge        for your own kubectl: context %[1]s
  naupegos status %[1]s                    machines, nodes, etcd, certificates
  naupegos ssh %[1]s MACHINE               a shell on a machine
  naupegos history %[1]s                   what was done, with times
  naupegos destroy %[1]s                   remove everything
`, name, took.Round(100*time.Millisecond))
	return err
}

// applySaved carries out a saved plan. It was reviewed: nobody is asked, unless there turns out to be more to do afterwards.
func (a *App) applySaved(ctx context.Context, file string, f *runFlags) error {
	if a.serverFlags.address() != "" {
		return fail.New(fail.Refused, "a saved plan can't be carried out by a server yet").Do("naupegos apply -f FILE, or without --server and $NAUPEGOS_SERVER")
	}
	saved, doc, err := savedplan.Read(file)
	if err != nil {
		return err
	}
	from := "the document in " + file
	asked := operate.Asked{Verb: operate.Apply, Document: saved.Document, From: from, ClusterID: saved.ClusterID, Only: saved.Only, NewBundle: f.consents.has(cluster.ConsentBundle)}
	b, err := a.begin(ctx, asked, work.Need{CarryOut: true})
	if err != nil {
		return located(err, from, []byte(saved.Document))
	}
	defer b.Close()
	if err := saved.Check(b.Session, b.First); err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Reviewed = true
	return a.apply(ctx, file, b, t)
}

// restoreLiving puts a set into the place of what a living cluster holds, or goes on with that.
func (a *App) restoreLiving(ctx context.Context, set *backup.Set, target backup.Target, f *backupRestoreFlags, began time.Time) (err error) {
	name := set.Cluster
	if !f.run.consents.has(cluster.ConsentRestore) {
		return fail.New(fail.Refused, "cluster %s lives, and all that was written since %s would be given up", name, set.CreatedAt.Local().Format(time.DateTime)).
			Do("--consent %s has the backup put into its place; or naupegos destroy %s first, which rebuilds its machines, too", cluster.ConsentRestore, name)
	}
	s, doc, err := a.openNamed(ctx, name, sessionOptions{verb: "backup restore", readOnly: true, bundle: bundles.Made})
	if err != nil {
		return err
	}
	defer s.Close()
	t := a.terms(&f.run, doc)
	t.Question = fmt.Sprintf("Put backup %s into the place of what cluster %s holds?", set.ID, name)
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, s.Record.Document) }
	from := set
	switch begun := cluster.Restores(s.Record); {
	case begun == set.ID:
		from = nil // it goes on
	case begun != "":
		return fail.New(fail.Refused, "cluster %s is being restored from backup %s", name, begun).Do("naupegos backup restore %s --from %s goes on with it", name, begun)
	default:
		o, start, err := a.rehearseForLiving(ctx, s, set, target, f)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.Remove()) }()
		t.Commit = func(ctx context.Context) error {
			if err := s.Cluster.KeepSnapshot(start); err != nil {
				return err
			}
			if err := o.Remove(); err != nil { // what is in plaintext does not wait until the cluster is up
				return err
			}
			return s.Commit(ctx, s.Record.Document)
		}
	}
	p, err := s.Cluster.PlanRestoreLiving(ctx, from)
	if err != nil {
		return err
	}
	if err := s.CarryOut(ctx, p, t); err != nil {
		return err
	}
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	t.Question, t.Commit = "Have apply put right what is not as the document says?", nil
	return a.convergeRestored(ctx, s, first, t, name, began)
}

// rehearseForLiving proves a set that fits a living cluster, and returns it with the file of the snapshot to start from.
func (a *App) rehearseForLiving(ctx context.Context, s *session, set *backup.Set, target backup.Target, f *backupRestoreFlags) (o *operate.OpenedBackup, start string, err error) {
	if o, err = f.open(ctx, a, set, target); err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Remove())
		}
	}()
	if err := s.Cluster.FitsLiving(ctx, set, &o.Rec, o.Secrets); err != nil {
		return nil, "", err
	}
	nodes, err := s.Cluster.Nodes(ctx)
	if err != nil {
		return nil, "", err
	}
	p, start, err := f.rehearse(ctx, a, o, &rehearse.Tidy{Machines: nodes})
	if err != nil {
		return nil, "", err
	}
	a.tellProven(p)
	return o, start, nil
}

// restoreAnew makes another cluster of a set, or goes on with that.
func (a *App) restoreAnew(ctx context.Context, name string, f *backupRestoreFlags) (err error) {
	began := time.Now()
	set, target, err := a.findAnew(ctx, cmp.Or(f.of, name), f)
	if err != nil {
		return err
	}
	rec, err := a.recordOf(ctx, name)
	if err != nil {
		return err
	}
	if rec != nil && cluster.Restores(rec) == set.ID && !cluster.RestoresLiving(rec) {
		return a.continueRestore(ctx, name, f, began)
	}
	if rec != nil {
		return fail.New(fail.Refused, "there is a cluster %s", name).Do("give the new one another name, or naupegos destroy %s first", name)
	}
	o, err := f.open(ctx, a, set, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Remove()) }()
	doc, document, err := a.documentAnew(o, name, f.file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "backup restore", readOnly: true, bundle: bundles.Made})
	if err != nil {
		return err
	}
	defer s.Close()
	others, err := cluster.EncryptionOf(&o.Rec, o.Doc)
	if err != nil {
		return err
	}
	list, keys, err := s.Cluster.EncryptOtherwise(ctx, others)
	if err != nil {
		return err
	}
	p, start, err := f.rehearse(ctx, a, o, &rehearse.Tidy{
		Machines: cluster.NodesOf(doc), Rebuilt: true, Anew: &rehearse.Anew{Encryption: list, Keys: keys, Prefixes: []string{turns.Prefix}},
	})
	if err != nil {
		return err
	}
	a.tellProven(p)
	return a.rebuild(ctx, s, o, start, doc, document, f, began)
}

// findAnew finds a set of a cluster that another is made of: where the store knows the former one's to be, else where the new one's document says.
func (a *App) findAnew(ctx context.Context, of string, f *backupRestoreFlags) (*backup.Set, backup.Target, error) {
	if f.at == "" && f.file != "" {
		former, err := a.recordOf(ctx, of)
		if err != nil {
			return nil, nil, err
		}
		doc, _, err := a.readDocument(f.file)
		if err != nil {
			return nil, nil, err
		}
		if former == nil && doc.Spec.Backup != nil && doc.Spec.Backup.To != nil {
			target := cluster.BackupTarget(doc, "") // it names a place
			set, err := backup.Open(ctx, target, of, f.from)
			return set, target, err
		}
	}
	where := f.openFlags
	where.file = ""
	return where.find(ctx, a, of, f.from)
}

// documentAnew returns the document of the other cluster that is made of a set: of a file, else the set's with another name.
func (a *App) documentAnew(o *operate.OpenedBackup, name, file string) (*v1alpha1.Cluster, []byte, error) {
	var doc *v1alpha1.Cluster
	var document []byte
	var err error
	if file != "" {
		doc, document, err = a.readDocument(file)
	} else if document, err = wanted.SetName(o.Document, name); err == nil {
		doc, err = v1alpha1.Parse("the document in backup "+o.Set.ID, document)
	}
	if err != nil {
		return nil, nil, err
	}
	if doc.Metadata.Name != name {
		return nil, nil, fail.New(fail.Invalid, "the document describes cluster %s, not %s", doc.Metadata.Name, name).At(shownFile(file))
	}
	if file == "" {
		doc.Spec.Kubernetes.Version = o.Set.Kubernetes
	}
	return doc, document, cluster.FitsAnew(doc, o.Doc, file == "")
}
