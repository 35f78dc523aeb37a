package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/contexts"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/archive"
)

func newStoreCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Back up, restore and move the store",
		Long: `The store is where Naupegos keeps what it knows about clusters: the document that was last applied, the keys of the
authorities, history. Clusters run without it, but if it is lost without a backup they can't be changed any more.

It is a file in the state directory of the user who runs the command, or a PostgreSQL database that a team shares:

  export NAUPEGOS_STORE='postgres://ann@db.example.com/naupegos?sslmode=verify-full'

A database on another host needs sslmode=verify-full; naupegos_tls=unverified in the address permits a weaker mode.

Secrets in it are encrypted. The key that opens them, identity.age, stays in the state directory of each user.`,
		Example: "  naupegos store backup store.age\n  naupegos store move postgres://ann@db.example.com/naupegos",
	}
	c.AddCommand(newStoreBackupCmd(a), newStoreRestoreCmd(a), newStoreMoveCmd(a), newStoreProtectCmd(a), newStoreRotateCmd(a))
	return c
}

func newStoreBackupCmd(a *App) *cobra.Command {
	key := archive.Key{Work: a.passphraseWork}
	var passphrase string
	var out output.Format
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write an encrypted copy of the store to a file",
		Long: `Write everything in the store to a new file, with the identity that opens its secrets: all that another machine needs to
continue. The file is encrypted with age: to recipients (age-keygen creates one; keep its private key away from this
machine), or to a passphrase, which is read from the terminal or from a file.

You can run it while other commands work. Backups of clusters, in backups/ of the state directory, are not included.`,
		Example: "  naupegos store backup store.age\n  naupegos store backup store-$(date +%F).age --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(key.Recipients) > 0 && passphrase != "" {
				return fail.New(fail.Invalid, "--recipient and --passphrase-file exclude each other").Do("encrypt to recipients, or to a passphrase")
			}
			return backupStore(cmd.Context(), a, args[0], key, passphrase, &out)
		},
	}
	c.Flags().StringArrayVar(&key.Recipients, "recipient", nil, "age recipient that may open it, age1… (repeatable)")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the passphrase")
	out.Bind(c)
	return c
}

// backupStore writes a complete new file, or none.
func backupStore(ctx context.Context, a *App, file string, key archive.Key, passphrase string, out *output.Format) (err error) {
	at, err := a.location()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return fail.New(fail.Conflict, "the file is there already").At(file).Do("name another one, such as store-$(date +%%F).age")
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write the backup").Do("name a file in a directory that can be written")
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if len(key.Recipients) == 0 {
		if key.Passphrase, err = terminal.Passphrase(a.In, a.Err, passphrase, true); err != nil {
			return err
		}
	}
	var all []store.Kept
	err = onStore(ctx, a, "store backup "+file, func() (err error) {
		all, err = store.Backup(ctx, at, f, key)
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), os.Rename(f.Name(), file)); err != nil {
		return fail.Wrap(fail.Refused, err, "write the backup").At(file)
	}
	return out.Print(a.Out, backedUp{file, all}, func(w io.Writer) error {
		fmt.Fprintf(w, "Backed up to %s:\n", file)
		return listKept(w, all)
	})
}

// noteStore notes an operation on the whole store in its audit.
func noteStore(ctx context.Context, a *App, action, outcome string) (err error) {
	st, err := a.viewStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return access.NoteOnHost(ctx, st, action, "", outcome)
}

// aroundStore performs an operation that opens the store by itself, and notes it in its audit before and after.
func aroundStore(ctx context.Context, a *App, action string, do func() error) error {
	if err := noteStore(ctx, a, action, "begun"); err != nil {
		return err
	}
	err := do()
	noted := noteStore(context.WithoutCancel(ctx), a, action, access.Outcome(err))
	if err == nil {
		return noted
	}
	return err
}

// onStore performs an operation on the whole store, and notes it in its audit.
func onStore(ctx context.Context, a *App, action string, do func() error) (err error) {
	st, err := a.viewStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return access.OnHost(ctx, st, action, "", func() (string, error) { return "", do() })
}

// plainly returns a store's location without user, password and parameters.
func plainly(at store.Location) string {
	u, err := url.Parse(at.URL)
	if err != nil || at.URL == "" {
		return at.Dir
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// backedUp is the result of naupegos store backup.
type backedUp struct {
	File     string       `json:"file"`
	Clusters []store.Kept `json:"clusters"`
}

// listKept prints clusters of a store.
func listKept(w io.Writer, all []store.Kept) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "  no clusters, history only")
		return err
	}
	t := output.NewTable(w)
	for _, c := range all {
		t.Row("  %s\t%s\tas of %s\n", c.Name, c.ID, c.Changed.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func newStoreMoveCmd(a *App) *cobra.Command {
	var replace bool
	var out output.Format
	c := &cobra.Command{
		Use:   "move TO",
		Short: "Move the store to a database that a team shares, or back to a directory",
		Long: `Copy the store to another place, a PostgreSQL database or a state directory, and refer users of the old one to the new
one. TO is postgres://USER@HOST/DATABASE, or a path: an absolute one, or one that begins with ./, ../ or ~. No command may
be working on a cluster meanwhile. The database must exist and belong to the user:

  createdb -O ann naupegos

Everyone who shares the store needs a copy of identity.age, mode 0600, in their own state directory.`,
		Example: "  naupegos store move 'postgres://ann@db.example.com/naupegos?sslmode=verify-full'\n  naupegos store move ~/.local/state/naupegos --store 'postgres://ann@db.example.com/naupegos?sslmode=verify-full'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.location()
			if err != nil {
				return err
			}
			to, err := contexts.Place(args[0], from)
			if err != nil {
				return err
			}
			to.Unlock = from.Unlock
			done, failed := moveStore(cmd.Context(), a, from, to, replace)
			if done == nil {
				return failed
			}
			return errors.Join(failed, out.Print(a.Out, done, func(w io.Writer) error {
				fmt.Fprintf(w, "Moved to %s:\n", done.To)
				if err := listKept(w, done.Clusters); err != nil {
					return err
				}
				if err := tellAside(w, done.Aside); err != nil {
					return err
				}
				_, err = fmt.Fprintln(w, contexts.UseIt(args[0]))
				return err
			}))
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "overwrite a store with clusters in the other place; what it knows about them is lost")
	out.Bind(c)
	return c
}

// moveStore moves the store, and notes it: before the copy, for both stores, and its outcome where the store is then. It has moved even if that note fails.
func moveStore(ctx context.Context, a *App, from, to store.Location, replace bool) (*store.Moved, error) {
	action := "store move " + plainly(to)
	if err := noteStore(ctx, a, action, "begun"); err != nil {
		return nil, err
	}
	done, err := store.Move(ctx, from, to, replace)
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		return nil, errors.Join(err, noteStore(ctx, a, action, access.Outcome(err)))
	}
	st, err := store.View(ctx, to)
	if err != nil {
		return done, err
	}
	return done, errors.Join(access.NoteOnHost(ctx, st, action, "", "done"), st.Close())
}

// tellAside prints where a replaced identity was saved.
func tellAside(w io.Writer, aside string) error {
	if aside == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "The identity that was there is kept in %s.\n", aside)
	return err
}

// readable opens a backup.
func readable(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the backup")
	}
	return f, nil
}

// restoreFlags are the flags of naupegos store restore.
type restoreFlags struct {
	passphrase, identity string
	replace              bool
	out                  output.Format
}

func newStoreRestoreCmd(a *App) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the store from a backup",
		Long: `Restore the store from a backup, and the identity that opens its secrets into the state directory: on a new machine, or
after the store was lost. A store that has clusters is overwritten only with --replace, and only while no command works on
one of them.

The store then does not know what was done to a cluster after the backup was made; commands say so until the cluster has
been applied again. Look first: naupegos plan -f with your document shows what differs, and naupegos status NAME shows
machines that the backup does not know.`,
		Example: "  naupegos store restore store.age\n  naupegos store restore store.age --identity ~/keys/backup.txt\n  naupegos store restore store.age --replace",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.identity != "" && f.passphrase != "" {
				return fail.New(fail.Invalid, "--identity and --passphrase-file exclude each other")
			}
			return restoreStore(cmd.Context(), a, args[0], &f)
		},
	}
	c.Flags().StringVar(&f.identity, "identity", "", "file with the age identity that opens the backup (default: ask for a passphrase)")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "file whose first line is the passphrase")
	c.Flags().BoolVar(&f.replace, "replace", false, "overwrite a store that has clusters; what it knows about them is lost")
	f.out.Bind(c)
	return c
}

func restoreStore(ctx context.Context, a *App, file string, f *restoreFlags) error {
	at, err := a.location()
	if err != nil {
		return err
	}
	r, err := readable(file)
	if err != nil {
		return err
	}
	defer r.Close()
	var key archive.Key
	if f.identity != "" {
		if key.Identities, err = os.ReadFile(f.identity); err != nil {
			return fail.Wrap(fail.Invalid, err, "read the identity")
		}
		if key.Identities, err = a.unlocked.Plain(f.identity, key.Identities); err != nil {
			return err
		}
	} else if key.Passphrase, err = terminal.Passphrase(a.In, a.Err, f.passphrase, false); err != nil {
		return err
	}
	before := noteReplaced(ctx, a, file)
	done, err := store.Restore(ctx, at, r, key, f.replace)
	if err != nil {
		if before != "" {
			err = errors.Join(err, noteStore(context.WithoutCancel(ctx), a, "store restore "+file, access.Outcome(err)))
		}
		return err
	}
	// The former content of the store is gone, including its audit: the restored audit records the restore.
	if err := noteStore(ctx, a, "store restore, of a backup of "+done.Made.UTC().Format(time.RFC3339)+before, "done"); err != nil {
		return err
	}
	return f.out.Print(a.Out, done, func(w io.Writer) error { return tellRestored(w, done) })
}

// noteReplaced notes a restore in the log of the store that it replaces, and returns the head of that log for the restored one: entries since the backup
// are gone, and an auditor can tell by the head which. It returns "" if there is no store, or it can't be opened: that may be why one is restored.
func noteReplaced(ctx context.Context, a *App, file string) string {
	st, err := a.viewStore(ctx)
	if err != nil {
		return ""
	}
	defer st.Close() // it is replaced
	if err := access.NoteOnHost(ctx, st, "store restore "+file, "", "begun"); err != nil {
		return ""
	}
	head, err := st.AuditHead(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(", in place of a log that ended with %d:%s", head.Seq, head.Hash)
}

// tellRestored prints the restored clusters, and the losses.
func tellRestored(w io.Writer, done *store.Restored) error {
	fmt.Fprintf(w, "Restored from a backup of %s:\n", done.Made.Local().Format(time.DateTime))
	if err := listKept(w, done.Clusters); err != nil {
		return err
	}
	if err := tellAside(w, done.Aside); err != nil {
		return err
	}
	if len(done.Newer) > 0 {
		fmt.Fprintln(w, "The store that was replaced knew more of these; what it knew is lost:")
		if err := listKept(w, done.Newer); err != nil {
			return err
		}
	}
	if len(done.Clusters) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "What was done after the backup is not known here. Look before you change anything: naupegos plan -f DOCUMENT")
	return err
}

// tellIfRestored reminds the user that a cluster's record comes from a backup, until the cluster is applied again.
func tellIfRestored(a *App, rec *store.Cluster) {
	made, err := time.Parse(time.RFC3339, rec.Facts[store.Fact{Kind: store.FactRestored}])
	if err != nil {
		return // the record is not from a backup
	}
	fmt.Fprintf(a.Err, "What is known of cluster %s was restored from a backup of %s; what was done to it since then is not known.\n", rec.Name, made.Local().Format(time.DateTime))
}

// serverStoreVerbs returns backup and restore for operators of servers; they are the same as those of naupegos store.
func serverStoreVerbs(a *App) []*cobra.Command {
	backup, restore := newStoreBackupCmd(a), newStoreRestoreCmd(a)
	backup.Short = "Write an encrypted copy of the server's database to a file"
	backup.Long = `Write everything that servers remember to a new file: clusters with their secrets, physical machines, tokens, audit,
history, the server's own authority, and the identity that opens its secrets. It is a consistent copy of one moment, and
can be made while servers run.

The file is encrypted with age, to recipients or to a passphrase, as naupegos store backup does it.`
	backup.Example = "  naupegos server backup --state-dir /var/lib/naupegos/server server.age --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n  naupegos server backup --state-dir /var/lib/naupegos/server server-$(date +%F).age --passphrase-file /etc/naupegos/passphrase"
	restore.Short = "Restore the server's database from a backup"
	restore.Long = `Replace the contents of the server's database with those of a backup. This is refused while a server works on the
database: stop all of them first. A database that has clusters or physical machines is overwritten only with --replace.

Jobs that had not ended when the backup was made are not continued. Revoked tokens stay revoked, and tokens that were
created after the backup are gone. The store does not know what was done to clusters since: look first, with naupegos plan
-f DOCUMENT.`
	restore.Example = "  systemctl stop naupegos-server && naupegos server restore --state-dir /var/lib/naupegos/server server.age --identity ~/keys/backup.txt --replace\n  naupegos server restore --state-dir /var/lib/naupegos/server server.age"
	return []*cobra.Command{backup, restore}
}
