package serving

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

func newSessionCmd(h Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "session",
		Short: "List and end the sessions of the web pages",
		Long: `List and end the sessions of operators who signed in to the web pages, with a token or with an OpenID Connect provider
(naupegos server --oidc-pages). A session ends after an hour without a request (--idle-sign-out), and with the token that
it began with.`,
	}
	c.AddCommand(newSessionListCmd(h), newSessionEndCmd(h))
	return c
}

func newSessionListCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List who is signed in to the web pages",
		Example: "  naupegos server session list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withStore(cmd.Context(), func(st store.Store) error {
				all, err := st.Sessions(cmd.Context())
				if err != nil {
					return err
				}
				if all == nil {
					all = []store.Session{}
				}
				return out.Print(h.Out, all, func(w io.Writer) error { return sessionTable(w, all) })
			})
		},
	}
	out.Bind(c)
	return c
}

func sessionTable(w io.Writer, all []store.Session) error {
	t := output.NewTable(w)
	t.Head("ID\tNAME\tSUBJECT\tISSUER\tSIGNED IN\tLAST USED\tUNTIL")
	for _, x := range all {
		used := x.Created
		if x.Used.After(used) {
			used = x.Used
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.ID, x.Name, x.Subject, cmp.Or(x.Issuer, "by a token"), x.Created.Local().Format(time.DateTime), used.Local().Format(time.DateTime), x.Expires.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func newSessionEndCmd(h Host) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "end ID | --all",
		Short:   "End a session of the web pages at once",
		Long:    "End a session, or all of them: its operator has to sign in again. To lock an operator out, remove their role at the provider, or\nin --oidc-role of naupegos server.",
		Example: "  naupegos server session end 9c1b2a4d5e3f0a77\n  naupegos server session end --all",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return fail.New(fail.Invalid, "name a session, or give --all")
			}
			return h.withStore(cmd.Context(), func(st store.Store) error {
				if all {
					sessions, err := st.Sessions(cmd.Context())
					if err != nil {
						return err
					}
					for _, x := range sessions {
						args = append(args, x.ID)
					}
				}
				for _, id := range args {
					err := access.OnHost(cmd.Context(), st, "server session end "+id, "", func() (string, error) { return "", st.EndSession(cmd.Context(), id) })
					if err != nil && (!all || fail.KindOf(err) != fail.NotFound) { // it may have ended meanwhile
						return err
					}
					if _, err := fmt.Fprintf(h.Out, "Session %s is over.\n", id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "end all sessions")
	return c
}
