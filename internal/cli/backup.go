package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/access"
)

func newBackupCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup",
		Short: "Create, list, check, restore and remove backups of clusters",
		Long: `A backup is one encrypted set of everything that a cluster needs to be rebuilt: etcd's data, and what the store knows
about the cluster (its document, its record and its secrets: authorities, keys, the keys that encrypt Secrets).

Sets are kept where spec.backup.to says, in a directory or a bucket, else in backups/NAME of the state directory. Each
has an ID and consists of a manifest, which describes it and can be read without a key, and set.age, which only the
store's identity (identity.age in the state directory) or one of spec.backup.recipients can open. naupegos backup key
stores that identity beside the sets, encrypted with a passphrase: then the bucket and the passphrase are all you need.

With spec.backup.schedule the control-plane machines make such sets on a schedule, one of them each time, in that
bucket or in a directory that they share. They never hold a key that opens the sets.

Naupegos also makes a backup before risky changes: before it replaces a control-plane machine, and before the last hop
of an upgrade.`,
		Example: "  naupegos backup create demo\n  naupegos backup rehearse demo\n  naupegos backup restore demo --from latest",
	}
	c.AddCommand(newBackupCreateCmd(a), newBackupListCmd(a), newBackupShowCmd(a), newBackupPruneCmd(a), newBackupKeyCmd(a), newBackupRehearseCmd(a), newBackupRestoreCmd(a),
		newBackupVolumesCmd(a))
	return c
}

func newBackupCreateCmd(a *App) *cobra.Command {
	var f runFlags
	var out output.Format
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a backup of a cluster now",
		Long: `Take a snapshot of etcd, add what the store knows about the cluster, encrypt both, and store the set with the
cluster's other backups. Nothing in the cluster changes, and you are not asked. The command is refused while another
one works on the cluster.

Then backups that spec.backup.keep does not keep are removed. An incomplete set, left by a command that was killed, is
not listed, and the next backup removes it.`,
		Example: "  naupegos backup create demo\n  naupegos backup create demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return createBackup(cmd.Context(), a, args[0], &f, &out)
		},
	}
	c.Flags().Var(&f.progress, "progress", "progress output: tty, plain, json or none (default tty on a terminal, else plain)")
	out.Bind(c)
	return c
}

// createBackup makes a backup with a plan of one step, which the journal records.
func createBackup(ctx context.Context, a *App, name string, f *runFlags, out *output.Format) (err error) {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: "backup create", Cluster: name}, flags: f})
	if err != nil {
		return err
	}
	set := done.Backup
	if set == nil { // another server continued a vanished server's job
		_, err = fmt.Fprintf(a.Out, "The backup of cluster %s is made; naupegos backup list %s shows it.\n", name, name)
		return err
	}
	return out.Print(a.Out, set, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "Backup %s of cluster %s: %d keys of etcd, %s, in %s\n", set.ID, name, set.Etcd.Keys, sizeWords(set.Bytes), done.Where)
		return err
	})
}

func newBackupListCmd(a *App) *cobra.Command {
	var out output.Format
	var file string
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "List the backups of a cluster, newest first",
		Long: `List a cluster's backups by their manifests; no key is needed. PROVEN says when a rehearsal opened the backup and
found it whole. With -f, look where that document says, even if the store does not (or no longer) know the cluster.`,
		Example: "  naupegos backup list demo\n  naupegos backup list demo -f demo.yaml\n  naupegos backup list demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if there, err := backupsAfar(cmd.Context(), a, args[0], file); err != nil {
				return err
			} else if there != nil {
				return out.Print(a.Out, there.Items, func(w io.Writer) error { return backupTable(w, args[0], there) })
			}
			b, err := backupsOf(cmd.Context(), a, args[0], file)
			if err != nil {
				return err
			}
			sets, err := listBackups(cmd.Context(), b)
			if err != nil {
				return err
			}
			here := &operate.BackupList{ClusterID: b.ClusterID, Where: b.Target.String(), Items: sets}
			return out.Print(a.Out, sets, func(w io.Writer) error { return backupTable(w, args[0], here) })
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "Cluster document that says where the backups are")
	out.Bind(c)
	return c
}

func newBackupShowCmd(a *App) *cobra.Command {
	var out output.Format
	var file string
	var trust trustFlags
	c := &cobra.Command{
		Use:   "show NAME [ID]",
		Short: "Show what is in a backup",
		Long: `Show the manifest of a backup: when and why it was made, of which releases, how many objects it holds, and who can
open it. Without ID, or with "latest", show the newest backup. The data itself is not read, and no key is needed to
decrypt it; but a backup that the cluster's key did not sign is refused, as restore refuses it. "signed by" is the
fingerprint of that key: note it elsewhere, and give it to --signed-by if the store is lost.`,
		Example: "  naupegos backup show demo\n  naupegos backup show demo 20261123T211500Z-3f9a\n  naupegos backup show demo latest -o json",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := backup.Latest
			if len(args) == 2 {
				id = args[1]
			}
			shown, err := backupNamed(cmd.Context(), a, args[0], id, file, &trust)
			if err != nil {
				return err
			}
			return out.Print(a.Out, shown.Set, func(w io.Writer) error { return showBackup(w, shown) })
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "Cluster document that says where the backups are")
	trust.bind(c)
	out.Bind(c)
	return c
}

// backupNamed finds one backup, here or on a server, and verifies its signature.
func backupNamed(ctx context.Context, a *App, name, id, file string, trust *trustFlags) (*operate.BackupShown, error) {
	c, err := a.server()
	if err != nil {
		return nil, err
	}
	if c != nil && trust.given() {
		return nil, fail.New(fail.Refused, "--signed-by and --unsigned need the store itself, and a server is named").Do("leave them out")
	}
	if c != nil && file == "" {
		return client.See(ctx, c, name, operate.BackupView, operate.BackupID{ID: id})
	}
	if c != nil {
		_, err := backupsAfar(ctx, a, name, file)
		return nil, err
	}
	b, err := backupsOf(ctx, a, name, file)
	if err != nil {
		return nil, err
	}
	set, err := backup.Open(ctx, b.Target, b.Cluster, id)
	if err != nil {
		return nil, err
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	t, err := trust.trust(ctx, st, set)
	if err != nil {
		return nil, err
	}
	if err := set.Verify(t, st.Identity()); err != nil {
		return nil, err
	}
	return &operate.BackupShown{Set: set, Where: set.Where()}, nil
}

func newBackupPruneCmd(a *App) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "prune NAME",
		Short: "Remove the backups that spec.backup.keep does not keep",
		Long: `Show which backups spec.backup.keep does not keep, ask, and remove them. naupegos backup create does the same without
asking. Always kept are the newest proven backup, backups that can't be read, and those of another cluster of the
same name.`,
		Example: "  naupegos backup prune demo\n  naupegos backup prune demo --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p, _, err := a.carry(cmd.Context(), &verb{asked: operate.Asked{Verb: "backup prune", Cluster: args[0]}, flags: &f, asks: func(p *plan.Plan) string {
				return "Remove " + words.Count(len(p.Steps), "backup", "backups") + "?"
			}})
			if err == nil && p.Empty() {
				_, err = fmt.Fprintln(a.Out, "All backups stay.")
			}
			return err
		},
	}
	f.bind(c)
	return c
}

func newBackupKeyCmd(a *App) *cobra.Command {
	var passphrase string
	c := &cobra.Command{
		Use:   "key NAME",
		Short: "Store the key of a cluster's backups beside them, under a passphrase",
		Long: `Write the store's identity, which opens the backups, beside them as NAME/key.age, encrypted with a passphrase (age,
scrypt). Then the backups and the passphrase are enough to rebuild the cluster if everything else is lost. The
passphrase is read from the terminal or from a file. Running the command again replaces the old passphrase.

Anyone with both the backups and the passphrase controls every cluster in this store: choose a long passphrase, and
keep it elsewhere.`,
		Example: "  naupegos backup key demo\n  naupegos backup key demo --passphrase-file /root/passphrase",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{verb: "backup key", readOnly: true}, func(s *session) error {
				word, err := terminal.Passphrase(a.In, a.Err, passphrase, true)
				if err != nil {
					return err
				}
				var where string
				err = access.OnHost(cmd.Context(), s.Store, "backup key "+args[0], args[0], func() (_ string, err error) {
					where, err = s.Cluster.WriteBackupKey(cmd.Context(), word)
					return where, err
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.Out, "The key of cluster %s's backups lies beside them in %s, and opens with the passphrase.\n", args[0], where)
				return err
			})
		},
	}
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the passphrase")
	return c
}

// backupsOf finds the location of a cluster's backups: from a document, else from the store's record of the cluster, else the state directory.
func backupsOf(ctx context.Context, a *App, name, file string) (*operate.BackupsOf, error) {
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	var doc *v1alpha1.Cluster
	if file != "" {
		if doc, _, err = a.readDocument(file); err == nil && doc.Metadata.Name != name {
			err = fail.New(fail.Invalid, "the document describes cluster %s, not %s", doc.Metadata.Name, name).At(file)
		}
		if err != nil {
			return nil, err
		}
	}
	return operate.FindBackups(ctx, st, name, doc, &operate.Options{})
}

// backupsAfar returns the backups that the server in use lists; nil if there is no server.
func backupsAfar(ctx context.Context, a *App, name, file string) (*operate.BackupList, error) {
	c, err := a.server()
	if err != nil || c == nil {
		return nil, err
	}
	if file != "" {
		return nil, fail.New(fail.Refused, "-f names a place that this command looks at, and a server is named").Do("leave out -f, or --server and $NAUPEGOS_SERVER")
	}
	return client.See(ctx, c, name, operate.Backups, operate.Plainly{})
}

// listBackups returns the sets. For an unknown cluster without sets it returns an error, because the name is probably misspelt.
func listBackups(ctx context.Context, b *operate.BackupsOf) ([]*backup.Set, error) {
	sets, err := backup.List(ctx, b.Target, b.Cluster)
	if err == nil && len(sets) == 0 && b.Unknown != nil {
		err = b.Unknown
	}
	if sets == nil {
		sets = []*backup.Set{} // a list in JSON, not null
	}
	return sets, err
}

func backupTable(w io.Writer, name string, b *operate.BackupList) error {
	if len(b.Items) == 0 {
		_, err := fmt.Fprintf(w, "There is no backup of cluster %s in %s.\n", name, b.Where)
		return err
	}
	t := output.NewTable(w)
	t.Head("ID\tMADE\tKUBERNETES\tKEYS\tSIZE\tPROVEN\tWHY")
	for _, s := range b.Items {
		if s.Problem != "" {
			t.Row("%s\t%s\t-\t-\t-\t-\t%s\n", s.ID, s.CreatedAt.Local().Format(time.DateTime), s.Problem)
			continue
		}
		why := s.Reason
		if s.SignedBy == "" {
			why += " (not signed)"
		}
		if b.ClusterID != "" && s.ClusterID != b.ClusterID {
			why += " (of another cluster of this name, " + s.ClusterID + ")"
		}
		t.Row("%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.ID, s.CreatedAt.Local().Format(time.DateTime), s.Kubernetes, s.Etcd.Keys, sizeWords(s.Bytes), proven(s), why)
	}
	return t.Flush()
}

// proven describes when a set was proven.
func proven(s *backup.Set) string {
	if s.ProofProblem != "" {
		return "no: " + s.ProofProblem
	}
	if !s.Proven() {
		return "no"
	}
	return s.Proof.At.Local().Format(time.DateTime)
}

func showBackup(w io.Writer, of *operate.BackupShown) error {
	s := of.Set
	t := output.NewTable(w)
	for _, line := range [][2]string{
		{"backup", s.ID}, {"cluster", s.Cluster + " (" + s.ClusterID + ")"}, {"made", s.CreatedAt.Local().Format(time.DateTime)}, {"why", s.Reason},
		{"proven", proven(s)}, {"Kubernetes", s.Kubernetes}, {"bundle", s.Bundle},
		{"etcd", fmt.Sprintf("%s, revision %d, taken of %s, %s", s.Etcd.Version, s.Etcd.Revision, s.Etcd.Member, sizeWords(s.Etcd.Bytes))},
		{"holds", strings.Join(s.Parts, ", ")}, {"size", sizeWords(s.Bytes)}, {"SHA-256", s.SHA256}, {"where", of.Where},
		{"opened by", strings.Join(s.Recipients, ", ")}, {"signed by", cmp.Or(s.SignedBy, "no key")},
	} {
		t.Row("%s\t%s\n", line[0], line[1])
	}
	t.Row("\nKEYS\tOF\n")
	for _, o := range s.Etcd.Objects {
		t.Row("%d\t%s\n", o.Count, o.Kind)
	}
	t.Row("%d\tall\n", s.Etcd.Keys)
	return t.Flush()
}

// sizeWords formats a size for people.
func sizeWords(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
