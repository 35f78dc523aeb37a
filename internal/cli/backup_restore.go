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
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rehearse"
	"github.com/naupegos/naupegos/internal/store"
)

// openFlags name a set's location and key, and the time limit of its rehearsal.
type openFlags struct {
	at, file             string
	identity, passphrase string
	timeout              time.Duration
	trustFlags
}

// trustFlags define which signature of a set is accepted.
type trustFlags struct {
	signedBy string
	unsigned bool
}

func (f *trustFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.signedBy, "signed-by", "", "fingerprint of the key that signed the backup, SHA256:… (default: as the store or the identity knows it)")
	c.Flags().BoolVar(&f.unsigned, "unsigned", false, "use the backup though nothing vouches for who made it")
}

// trust returns the store's knowledge of a set's signer, with the flags' settings.
func (f *trustFlags) trust(ctx context.Context, st store.Store, set *backup.Set) (backup.Trust, error) {
	t, err := operate.TrustOf(ctx, st, set.ClusterID)
	t.SignedBy, t.Unsigned = f.signedBy, f.unsigned
	return t, err
}

func (f *trustFlags) given() bool { return f.signedBy != "" || f.unsigned }

func (f *openFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.at, "backups", "", "directory that holds the backups (default: as the document says, else in the state directory)")
	c.Flags().StringVarP(&f.file, "file", "f", "", "Cluster document that says where the backups are")
	c.Flags().StringVar(&f.identity, "identity-file", "", "file with the age identity that opens the backup (default: the store's own)")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "file whose first line is the passphrase of the key beside the backups")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "time limit of the rehearsal")
	f.trustFlags.bind(c)
}

// check refuses contradictory flags; where means that --backups and --file both name the location.
func (f *openFlags) check(where bool) error {
	switch {
	case f.signedBy != "" && f.unsigned:
		return fail.New(fail.Invalid, "--signed-by and --unsigned exclude each other").Do("say who signed the backup, or that it does not matter")
	case f.identity != "" && f.passphrase != "":
		return fail.New(fail.Invalid, "--identity-file and --passphrase-file exclude each other").Do("open the set by an identity, or by a passphrase")
	case where && f.at != "" && f.file != "":
		return fail.New(fail.Invalid, "--backups and --file exclude each other").Do("name the directory, or the document that does")
	case f.timeout <= 0:
		return fail.New(fail.Invalid, "--timeout=%s is not a positive time", f.timeout)
	}
	return nil
}

// find returns a set and the location that it is in.
func (f *openFlags) find(ctx context.Context, a *App, name, id string) (*backup.Set, backup.Target, error) {
	if err := f.check(true); err != nil {
		return nil, nil, err
	}
	target, err := f.target()
	if err != nil {
		return nil, nil, err
	}
	if target == nil {
		b, err := backupsOf(ctx, a, name, f.file)
		if err != nil {
			return nil, nil, err
		}
		target = b.Target
	}
	set, err := backup.Open(ctx, target, name, id)
	return set, target, err
}

// target returns the directory in --backups, or nil.
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

// key returns the identities for decrypting a set.
func (f *openFlags) key(ctx context.Context, a *App, target backup.Target, name string) ([]byte, error) {
	switch {
	case f.identity != "":
		key, err := os.ReadFile(f.identity)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the identity")
		}
		return a.unlocked.Plain(f.identity, key)
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

// open decrypts a set. The caller must remove it afterwards.
func (f *openFlags) open(ctx context.Context, a *App, set *backup.Set, target backup.Target) (*operate.OpenedBackup, error) {
	find := a.options(sessionOptions{bundle: bundles.Made}).Bundle
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	trust, err := f.trust(ctx, st, set)
	if err != nil {
		return nil, err
	}
	return operate.OpenBackup(ctx, set, func() ([]byte, error) {
		key, err := f.key(ctx, a, target, set.Cluster)
		if err == nil {
			fmt.Fprintf(a.Err, "Opening backup %s.\n", set.ID)
		}
		return key, err
	}, trust, find)
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
		Long: `Open a backup and start etcd and an API server from it in a sandbox: with the programs of the cluster's own bundle and
the authorities and keys in the backup, on this host's loopback interface. Root is not needed. Then

  - compare etcd's data, by count and digest, with what was counted when the backup was made;
  - read every object through the API, which decrypts every Secret, and check that no key in etcd was left out;
  - sign in with an administrator's kubeconfig of the backup's authority, and use service-account tokens of its key.

The result is stored beside the backup and shown by backup list, backup show and status. A backup that is damaged, or
whose keys do not match, is refused with the reason. Without ID, rehearse the newest backup.

With --server, the server rehearses it: where the store has the backups, with the store's own identity.`,
		Example: "  naupegos backup rehearse demo\n  naupegos backup rehearse demo 20261123T211500Z-3f9a\n  naupegos backup rehearse demo --backups /mnt/backups --identity-file ~/keys/backup.txt",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := backup.Latest
			if len(args) == 2 {
				id = args[1]
			}
			return rehearseBackup(cmd.Context(), a, args[0], id, &f, &out)
		},
	}
	f.bind(c)
	out.Bind(c)
	return c
}

func rehearseBackup(ctx context.Context, a *App, name, id string, f *openFlags, out *output.Format) (err error) {
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		return rehearseAfar(ctx, a, name, id, f, out)
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

// rehearseAfar lets a server prove a set.
func rehearseAfar(ctx context.Context, a *App, name, id string, f *openFlags, out *output.Format) error {
	if f.trustFlags.given() {
		return fail.New(fail.Refused, "--signed-by and --unsigned need the store itself, and a server is named").Do("leave them out; or run the command on the host of the server's store, with its --state-dir")
	}
	if f.at != "" || f.file != "" || f.identity != "" || f.passphrase != "" {
		return fail.New(fail.Refused, "--backups, --file, --identity-file and --passphrase-file name what this command reads, and a server is named").Do("leave them away, or --server and $NAUPEGOS_SERVER")
	}
	if err := f.check(true); err != nil {
		return err
	}
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Rehearse, Cluster: name, Backup: id, Seconds: seconds(f.timeout)}, flags: &runFlags{}})
	if err != nil {
		return err
	}
	if done.Proof == nil { // another server continued a vanished server's job
		_, err = fmt.Fprintf(a.Out, "The backup of cluster %s is proven; naupegos backup list %s shows it.\n", name, name)
		return err
	}
	return out.Print(a.Out, done.Proof, func(w io.Writer) error { return provenTable(w, name, done.Proof) })
}

// provenTable prints the results of a rehearsal.
func provenTable(w io.Writer, name string, p *rehearse.Proof) error {
	fmt.Fprintf(w, "Backup %s of cluster %s is proven: %d objects, %d Secrets decrypted, in %.1f s.\n", p.Set, name, p.Objects, p.Secrets, p.Seconds)
	t := output.NewTable(w)
	t.Row("\nOBJECTS\tOF\n")
	for _, r := range p.Largest(10) {
		t.Row("%d\t%s\n", p.Resources[r].Count, r)
	}
	return t.Flush()
}

// backupRestoreFlags are the flags of naupegos backup restore.
type backupRestoreFlags struct {
	openFlags
	from        string
	newIdentity bool
	of          string
	out         output.Format
	run         runFlags
}

func newBackupRestoreCmd(a *App) *cobra.Command {
	var f backupRestoreFlags
	c := &cobra.Command{
		Use:   "restore NAME --from ID",
		Short: "Rebuild a lost or destroyed cluster from a backup, or put its data back",
		Long: `Rebuild the cluster that was backed up: the same cluster, with its authorities, service-account key and encryption
keys, so old kubeconfigs and tokens keep working if the endpoint stays the same. The backup is rehearsed first;
nothing is changed before that succeeds. Then the cluster is put back into the store, its machines are created as
apply creates them, and etcd starts from the backup.

What is no longer true is removed: leases, pods of controllers (which create new ones), volume attachments, endpoints,
and nodes that do not exist. etcd's revisions are raised by a billion, so that no watcher takes old objects for new
ones.

A running cluster is refused without --consent ` + backups.ConsentRestore + `, because everything written since the backup is lost. With
it, the current data is backed up first, if etcd can be read; then all control-plane machines stop and start together
from the backup, and kubelets restart. Machines stay. A backup from before a rotation of authorities or keys, or of
another release, is refused: destroy the cluster, then restore.

--new-identity creates another cluster, NAME, from a backup of the cluster --of, with new authorities, service-account
key and encryption keys. It accepts no kubeconfig or token of the original, its Secrets are encrypted with the new
key, and it touches nothing of the original in a cloud: load balancers are new, volumes are never deleted. The
document is that of -f, else the backup's with another name.

With --server, the server restores it: from where the store or -f has the backups, with the store's own identity.
Whatever is proven is shown meanwhile.

If restore is interrupted, run the same command again; for a cluster that is being rebuilt, naupegos apply continues
as well. On another machine, or with another store, name the directory with --backups, and what opens the backup with
--identity-file or --passphrase-file.`,
		Example: "  naupegos backup restore demo --from latest\n  naupegos backup restore demo --from 20261123T211500Z-3f9a --backups /mnt/backups --passphrase-file words\n" +
			"  naupegos backup restore copy --new-identity --of demo --from latest",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from == "" {
				return fail.New(fail.Invalid, "no backup is given").Do("--from ID, or --from latest; naupegos backup list %s names them", args[0])
			}
			if f.of != "" && !f.newIdentity {
				return fail.New(fail.Invalid, "--of is for another cluster than the backup's").Do("--new-identity makes one")
			}
			return restore(cmd.Context(), a, args[0], &f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "ID of the backup, or latest")
	c.Flags().BoolVar(&f.newIdentity, "new-identity", false, "create another cluster from it, with new authorities and keys")
	c.Flags().StringVar(&f.of, "of", "", "with --new-identity: the cluster that was backed up (default: NAME)")
	f.openFlags.bind(c)
	f.out.Bind(c)
	f.run.bind(c)
	f.run.consents.Known = append(cluster.Consents(), backups.ConsentRestore)
	return c
}

// restore restores a backup, here or on a server.
func restore(ctx context.Context, a *App, name string, f *backupRestoreFlags) error {
	began := time.Now()
	if err := f.check(!f.newIdentity); err != nil {
		return err
	}
	r := &operate.Restore{New: f.newIdentity, Of: f.of, Living: !f.newIdentity && f.run.consents.Has(backups.ConsentRestore)}
	v := &verb{asked: operate.Asked{Verb: "backup restore", Cluster: name, Backup: f.from, Restore: r, Seconds: seconds(f.timeout)}, flags: &f.run, out: &f.out}
	if f.file != "" {
		_, data, err := a.readDocument(f.file)
		if err != nil {
			return err
		}
		v.asked.Document, v.asked.From = string(data), shownFile(f.file)
	}
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil && f.trustFlags.given() {
		return fail.New(fail.Refused, "--signed-by and --unsigned need the store itself, and a server is named").Do("leave them out; or run the command on the host of the server's store, with its --state-dir")
	} else if c != nil && (f.at != "" || f.identity != "" || f.passphrase != "") {
		return fail.New(fail.Refused, "--backups, --identity-file and --passphrase-file name what this command reads, and a server is named").Do("leave them away, or --server and $NAUPEGOS_SERVER")
	}
	target, err := f.target()
	if err != nil {
		return err
	}
	v.here = func(o *operate.Options) {
		o.Backups = operate.BackupSource{Target: target, Trust: backup.Trust{SignedBy: f.signedBy, Unsigned: f.unsigned}, Key: func(ctx context.Context, in backup.Target) ([]byte, error) {
			return f.key(ctx, a, in, cmp.Or(f.of, name))
		}}
	}
	v.asks = func(p *plan.Plan) string {
		if slices.Contains(p.MissingConsents(nil), backups.ConsentRestore) {
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
