package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

func newStoreRotateCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Renew the store's identity, and encrypt everything in the store again",
		Long: `Create a new identity, give every cluster's secrets a new key, encrypt them again, and sign every row with the new
identity, in one transaction. identity.age is replaced once that is done, and keeps its protection. The former identity
stays beside it, and in the store, because it opens backups from before. If the command is killed, the next command
finishes it or leaves everything as it was.

No command may be working on a cluster. Running servers notice within 10 seconds and stop, so that their service manager
starts them again with the new identity. All hosts that share the store need a copy of the new identity.age.

Then run naupegos apply for each cluster with scheduled backups: until then its machines encrypt them to the former
identity. Run naupegos backup key again where a key lies beside the backups. If the former identity was stolen, also
rotate the keys of the clusters (naupegos rotate), because the thief could read them.`,
		Example: "  naupegos store rotate",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := a.location()
			if err != nil {
				return err
			}
			var done *store.Rotated
			err = aroundStore(cmd.Context(), a, "store rotate", func() (err error) {
				done, err = store.Rotate(cmd.Context(), at)
				return err
			})
			if err != nil {
				return err
			}
			return out.Print(a.Out, done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "The store has a new identity, %s: %d clusters have new keys, %d secrets are encrypted again.\nThe former identity is in %s.\n",
					done.Recipient, done.Clusters, done.Secrets, done.Aside)
				return err
			})
		},
	}
	out.Bind(c)
	return c
}

func newStoreProtectCmd(a *App) *cobra.Command {
	by := store.Protection{Work: a.passphraseWork}
	var passphrase string
	var none bool
	c := &cobra.Command{
		Use:   "protect",
		Short: "Encrypt identity.age with a passphrase or an age plugin",
		Long: `Encrypt identity.age in the state directory with a passphrase, which is read from the terminal or from a file; or with an
age plugin, which uses hardware, PKCS#11 or a key service. Commands then ask for the passphrase (--identity-passphrase-file,
or systemd's credential naupegos-identity-passphrase, where there is no terminal), or run age-plugin-NAME from PATH: once for
each process. --none removes the protection.

The identity itself stays: copies of the unprotected file still open the store. Renew it with naupegos store rotate if
another person may have one.`,
		Example: "  naupegos store protect\n  naupegos store protect --passphrase-file /root/passphrase\n  naupegos store protect --plugin AGE-PLUGIN-YUBIKEY-1Q…\n  naupegos store protect --none",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := a.location()
			if err != nil {
				return err
			}
			switch {
			case none && (by.Plugin != "" || passphrase != ""), by.Plugin != "" && passphrase != "":
				return fail.New(fail.Invalid, "--none, --plugin and --passphrase-file exclude each other")
			case !none && by.Plugin == "":
				if by.Passphrase, err = terminal.Passphrase(a.In, a.Err, passphrase, true); err != nil {
					return err
				}
			}
			action := map[bool]string{true: "store protect --none", false: "store protect"}[none]
			if err := onStore(cmd.Context(), a, action, func() error { return store.Protect(cmd.Context(), at, by) }); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, map[bool]string{true: "The store's identity is not protected any more.", false: "The store's identity is protected."}[none])
			return err
		},
	}
	c.Flags().StringVar(&by.Plugin, "plugin", "", "identity of an age plugin, AGE-PLUGIN-NAME-1…")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the passphrase")
	c.Flags().BoolVar(&none, "none", false, "remove the protection")
	return c
}
