package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/rehearse"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
)

// openFlags say where a set is, what opens it, and how long its rehearsal may take.
type openFlags struct {
	at, file             string
	identity, passphrase string
	timeout              time.Duration
}

func (f *openFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.at, "to", "", "the directory that holds the backups (default: where the document, or else the state directory, has them)")
	c.Flags().StringVarP(&f.file, "file", "f", "", "look where this document says")
	c.Flags().StringVar(&f.identity, "identity-file", "", "open the set with the age identity in this file (default: the store's own)")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "open the key that lies beside the backups with the passphrase in the first line of this file")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long the rehearsal may take")
}

// check refuses flags that don't say one thing; where says that a document says where backups are.
func (f *openFlags) check(where bool) error {
	switch {
	case f.identity != "" && f.passphrase != "":
		return fail.New(fail.Invalid, "--identity-file and --passphrase-file exclude each other").Do("open the set by an identity, or by a passphrase")
	case where && f.at != "" && f.file != "":
		return fail.New(fail.Invalid, "--to and --file exclude each other").Do("name the directory, or the document that does")
	case f.timeout <= 0:
		return fail.New(fail.Invalid, "--timeout=%s is no time", f.timeout)
	}
	return nil
}

// find finds a set, and where it and its like are.
func (f *openFlags) find(ctx context.Context, a *App, name, id string) (*backup.Set, backup.Target, error) {
	if err := f.check(true); err != nil {
		return nil, nil, err
	}
	target, err := f.target()
	if err != nil {
		return nil, nil, err
	}
	if target == nil {
		b, err := a.backupsOf(ctx, name, f.file)
		if err != nil {
			return nil, nil, err
		}
		target = b.Target
	}
	set, err := backup.Open(ctx, target, name, id)
	return set, target, err
}

// target is the directory that is named; nil: none is.
func (f *openFlags) target() (backup.Target, error) {
	if f.at == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(f.at)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "look for backups")
	}
	return backup.Directory(dir), nil
}

// key returns the identities that are to open a set.
func (f *openFlags) key(ctx context.Context, a *App, target backup.Target, name string) ([]byte, error) {
	switch {
	case f.identity != "":
		key, err := os.ReadFile(f.identity)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the identity")
		}
		return key, nil
	case f.passphrase != "":
		words, err := terminal.Passphrase(a.In, a.Err, f.passphrase, false)
		if err != nil {
			return nil, err
		}
		return backup.ReadKey(ctx, target, name, words)
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return st.Identity(), nil
}

// open decrypts a set. Remove it afterwards.
func (f *openFlags) open(ctx context.Context, a *App, set *backup.Set, target backup.Target) (*operate.OpenedBackup, error) {
	find := a.options(sessionOptions{bundle: bundles.Made}).Bundle
	return operate.OpenBackup(ctx, set, func() ([]byte, error) {
		key, err := f.key(ctx, a, target, set.Cluster)
		if err == nil {
			fmt.Fprintf(a.Err, "Opening backup %s.\n", set.ID)
		}
		return key, err
	}, find)
}

// rehearse proves a set.
func (f *openFlags) rehearse(ctx context.Context, a *App, o *operate.OpenedBackup) (*rehearse.Proof, error) {
	p, _, err := o.Rehearse(ctx, operate.Rehearsal{By: version, Within: f.timeout, Status: func(format string, args ...any) { fmt.Fprintf(a.Err, "  "+format+"\n", args...) }})
	return p, err
}

func newBackupRehearseCmd(a *App) *cobra.Command {
	var f openFlags
	var out output.Format
	c := &cobra.Command{
		Use:   "rehearse NAME [ID]",
		Short: "Prove that a backup can be restored, without touching the cluster",
		Long: `Open a backup and start etcd and an API server from it in a sandbox: the programs of the cluster's own bundle, with the authorities and keys
of the set, on loopback of this host. Root is not needed. Then

  - etcd's data is compared, by count and digest, with what was counted when the set was made;
  - every object is read through the API, which decrypts every Secret, and every key of etcd must be among them;
  - an administrator's kubeconfig by the set's authority signs in, and service-account tokens by its key are accepted.

What was proven is kept beside the set and shown by backup list, backup show and status. A set that is damaged, or of other keys, is refused with
what is wrong. Without an ID it is the newest one.

With --server the server does it, where the store has the backups, by the store's own identity.`,
		Example: "  naupegos backup rehearse demo\n  naupegos backup rehearse demo 20261123T211500Z-3f9a\n  naupegos backup rehearse demo --to /mnt/backups --identity-file ~/keys/backup.txt",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := backup.Latest
			if len(args) == 2 {
				id = args[1]
			}
			return a.rehearseBackup(cmd.Context(), args[0], id, &f, &out)
		},
	}
	f.bind(c)
	out.Bind(c)
	return c
}

func (a *App) rehearseBackup(ctx context.Context, name, id string, f *openFlags, out *output.Format) (err error) {
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		return a.rehearseAfar(ctx, name, id, f, out)
	}
	set, target, err := f.find(ctx, a, name, id)
	if err != nil {
		return err
	}
	o, err := f.open(ctx, a, set, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Remove()) }()
	p, err := f.rehearse(ctx, a, o)
	if err != nil {
		return err
	}
	return out.Print(a.Out, p, func(w io.Writer) error { return provenTable(w, name, p) })
}

// rehearseAfar has a server prove a set.
func (a *App) rehearseAfar(ctx context.Context, name, id string, f *openFlags, out *output.Format) error {
	if f.at != "" || f.file != "" || f.identity != "" || f.passphrase != "" {
		return fail.New(fail.Refused, "--to, --file, --identity-file and --passphrase-file name what this command reads, and a server is named").Do("leave them away, or --server and $NAUPEGOS_SERVER")
	}
	if err := f.check(true); err != nil {
		return err
	}
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Rehearse, Cluster: name, Backup: id, Seconds: seconds(f.timeout)}, flags: &runFlags{}})
	if err != nil {
		return err
	}
	if done.Proof == nil { // another server went on with what one had done that is gone
		_, err = fmt.Fprintf(a.Out, "The backup of cluster %s is proven; naupegos backup list %s shows it.\n", name, name)
		return err
	}
	return out.Print(a.Out, done.Proof, func(w io.Writer) error { return provenTable(w, name, done.Proof) })
}

// provenTable says what a rehearsal has shown.
func provenTable(w io.Writer, name string, p *rehearse.Proof) error {
	fmt.Fprintf(w, "Backup %s of cluster %s is proven: %d objects, %d Secrets decrypted, in %.1f s.\n", p.Set, name, p.Objects, p.Secrets, p.Seconds)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "\nOBJECTS\tOF\n")
	for _, r := range p.Largest(10) {
		fmt.Fprintf(t, "%d\t%s\n", p.Resources[r].Count, r)
	}
	return t.Flush()
}

// backupRestoreFlags are those of naupegos backup restore.
type backupRestoreFlags struct {
	openFlags
	from        string
	newIdentity bool
	of          string
	run         runFlags
}

func newBackupRestoreCmd(a *App) *cobra.Command {
	var f backupRestoreFlags
	c := &cobra.Command{
		Use:   "restore NAME --from ID",
		Short: "Rebuild a cluster that was destroyed, or lost, from a backup, or put its data back",
		Long: `Rebuild the cluster that a backup is of: the same one, with its authorities, service-account key and encryption keys, so that old kubeconfigs
and tokens go on working where the endpoint stays the same. The set is rehearsed first; nothing is touched before that. Then the cluster gets its
place in the store again, its machines are made as apply makes them, and etcd starts from the backup.

What is not true any more is taken out: leases, pods of controllers, which make other ones, attachments of volumes, endpoints, nodes that there are
not. Revisions of etcd grow by a billion, so that nobody who has watched takes old for new.

A cluster that lives is refused without --consent ` + cluster.ConsentRestore + `: what was written since the backup is given up. With it a backup of what is there now is made
first, where etcd can be read; then all control-plane machines stop, start from the set together, and kubelets restart. Machines stay. A set from before
authorities or keys were rotated, or of another release, is refused: destroy the cluster and restore then.

With --new-identity everything comes back as another cluster, NAME, of the set of --of: with authorities, a service-account key and encryption keys of its
own. Kubeconfigs and tokens of the other one are refused, its Secrets are stored by the new key, and nothing that it has in a cloud is touched: load
balancers are others, volumes are never deleted. The document is that of -f, else the set's with another name.

With --server the server does it, where the store has the backups or -f says, by the store's own identity. What is proven there is shown meanwhile.

Interrupted, the same command goes on; of a cluster that is rebuilt, naupegos apply does, too. On another machine, or with another store, name the directory with --to, and what opens
the set: --identity-file or --passphrase-file.`,
		Example: "  naupegos backup restore demo --from latest\n  naupegos backup restore demo --from 20261123T211500Z-3f9a --to /mnt/backups --passphrase-file words\n" +
			"  naupegos backup restore copy --new-identity --of demo --from latest",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from == "" {
				return fail.New(fail.Invalid, "say from which backup").Do("--from ID, or --from latest; naupegos backup list %s names them", args[0])
			}
			if f.of != "" && !f.newIdentity {
				return fail.New(fail.Invalid, "--of is for another cluster than the backup's").Do("--new-identity makes one")
			}
			return a.restore(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "the ID of the backup, or latest")
	c.Flags().BoolVar(&f.newIdentity, "new-identity", false, "make another cluster of it, with authorities and keys of its own")
	c.Flags().StringVar(&f.of, "of", "", "with --new-identity: the cluster that the backup is of (default: NAME)")
	f.openFlags.bind(c)
	f.run.bind(c)
	f.run.consents.known = append(cluster.Consents(), cluster.ConsentRestore)
	return c
}

// restore has a backup be a cluster, here or at a server's.
func (a *App) restore(ctx context.Context, name string, f *backupRestoreFlags) error {
	began := time.Now()
	if err := f.check(!f.newIdentity); err != nil {
		return err
	}
	r := &operate.Restore{New: f.newIdentity, Of: f.of, Living: !f.newIdentity && f.run.consents.has(cluster.ConsentRestore)}
	v := &verb{asked: operate.Asked{Verb: "backup restore", Cluster: name, Backup: f.from, Restore: r, Seconds: seconds(f.timeout)}, flags: &f.run}
	if f.file != "" {
		_, data, err := a.readDocument(f.file)
		if err != nil {
			return err
		}
		v.asked.Document, v.asked.From = string(data), shownFile(f.file)
	}
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil && (f.at != "" || f.identity != "" || f.passphrase != "") {
		return fail.New(fail.Refused, "--to, --identity-file and --passphrase-file name what this command reads, and a server is named").Do("leave them away, or --server and $NAUPEGOS_SERVER")
	}
	target, err := f.target()
	if err != nil {
		return err
	}
	v.here = func(o *operate.Options) {
		o.Backups = operate.BackupSource{Target: target, Key: func(ctx context.Context, in backup.Target) ([]byte, error) {
			return f.key(ctx, a, in, cmp.Or(f.of, name))
		}}
	}
	v.asks = func(p *plan.Plan) string {
		if slices.Contains(p.MissingConsents(nil), cluster.ConsentRestore) {
			return "Put the backup into the place of what cluster " + name + " holds?"
		}
		return carryOut
	}
	_, done, err := a.carry(ctx, v)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "Cluster %s is restored (%s).\n", name, time.Since(began).Round(100*time.Millisecond))
	if done.Said != "" {
		fmt.Fprintln(a.Err, done.Said)
	}
	if len(done.Volumes) == 0 {
		return nil
	}
	return volumeTable(a.Out, name, done.Volumes)
}
