package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// restoreFlags are those of naupegos store restore.
type restoreFlags struct {
	passphrase, identity string
	replace              bool
}

func newStoreRestoreCmd(a *App) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put what a backup holds into the store",
		Long: `Put everything that a backup holds into the store, and the identity that opens its secrets into the state directory: on a new machine,
or where the store is lost. A store that has clusters is written over only with --replace, and only while nobody is at work on one.

What was done to a cluster after the backup was made is not known afterwards, and the verbs say so until the cluster was applied again. Look first:
naupegos plan -f with your document shows what differs; naupegos status NAME shows machines that the backup does not know.`,
		Example: "  naupegos store restore store.age\n  naupegos store restore store.age --identity ~/keys/backup.txt\n  naupegos store restore store.age --replace",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.identity != "" && f.passphrase != "" {
				return fail.New(fail.Invalid, "--identity and --passphrase-file exclude each other")
			}
			return a.restoreStore(cmd.Context(), args[0], f)
		},
	}
	c.Flags().StringVar(&f.identity, "identity", "", "open it with the age identity in this file; else with a passphrase")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "read the passphrase from the first line of this file")
	c.Flags().BoolVar(&f.replace, "replace", false, "write over clusters that the store has; what it remembers of them is lost")
	return c
}

func (a *App) restoreStore(ctx context.Context, file string, f restoreFlags) error {
	at, err := a.location()
	if err != nil {
		return err
	}
	r, err := readable(file)
	if err != nil {
		return err
	}
	defer r.Close()
	var key store.Key
	if f.identity != "" {
		if key.Identities, err = os.ReadFile(f.identity); err != nil {
			return fail.Wrap(fail.Invalid, err, "read the identity")
		}
	} else if key.Passphrase, err = a.passphrase(f.passphrase, false); err != nil {
		return err
	}
	done, err := store.Restore(ctx, at, r, key, f.replace)
	if err != nil {
		return err
	}
	return a.tellRestored(done)
}

// tellRestored says what is known now, and what is not.
func (a *App) tellRestored(done *store.Restored) error {
	fmt.Fprintf(a.Out, "Restored from a backup of %s:\n", done.Made.Local().Format(time.DateTime))
	if err := listKept(a.Out, done.Clusters); err != nil {
		return err
	}
	if err := tellAside(a.Out, done.Aside); err != nil {
		return err
	}
	if len(done.Newer) > 0 {
		fmt.Fprintln(a.Out, "The store that was replaced knew more of these; what it knew is lost:")
		if err := listKept(a.Out, done.Newer); err != nil {
			return err
		}
	}
	if len(done.Clusters) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(a.Out, "What was done after the backup is not known here. Look before you change anything: naupegos plan -f DOCUMENT")
	return err
}

// tellIfRestored reminds that what is known of a cluster came out of a backup, until the cluster is applied again.
func (a *App) tellIfRestored(rec *store.Cluster) {
	made, err := time.Parse(time.RFC3339, rec.Facts[store.Fact{Kind: store.FactRestored}])
	if err != nil {
		return // there is no such fact
	}
	fmt.Fprintf(a.Err, "What is known of cluster %s was restored from a backup of %s; what was done to it since then is not known.\n", rec.Name, made.Local().Format(time.DateTime))
}
