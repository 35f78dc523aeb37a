package serving

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// withStore opens the store and calls do.
func (h Host) withStore(ctx context.Context, do func(store.Store) error) error {
	st, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	err = do(st)
	if e := st.Close(); err == nil {
		err = e
	}
	return err
}

func newTokenCmd(h Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens of operators",
		Long: `Operators authenticate to the server with tokens. An administrator with access to the store creates them here; the store
keeps only a hash of each. A token has one of the roles read (look), operate (change clusters) and admin (everything, and the audit), for one
cluster or for all.`,
	}
	c.AddCommand(newTokenCreateCmd(h), newTokenListCmd(h), newTokenRevokeCmd(h))
	return c
}

// created is a new token, with the secret that only its operator gets.
type created struct {
	Secret string `json:"token"`
	store.Token
}

func newTokenCreateCmd(h Host) *cobra.Command {
	var role, cluster, reason string
	var life time.Duration
	var out output.Format
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token, and print it once",
		Long: `Create a token. NAME says whose it is, or what it is for, and appears in the audit. The token is printed once, on standard
output, and stored nowhere; use it through $NAUPEGOS_TOKEN, or from a file of mode 0600 that $NAUPEGOS_TOKEN_FILE names.`,
		Example: "  naupegos server token create ann --role operate\n  naupegos server token create dashboard --expires 8760h > token\n  naupegos server token create ci --role operate --cluster demo\n  naupegos server token create metrics --expires 0 --reason \"Prometheus can't renew it\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason = strings.TrimSpace(reason); life <= 0 && reason == "" {
				return fail.New(fail.Invalid, "a token that never expires needs a reason").Do("give --reason TEXT, which naupegos server token list shows, or --expires 720h")
			}
			return h.withStore(cmd.Context(), func(st store.Store) error {
				var secret string
				var t store.Token
				err := access.OnHost(cmd.Context(), st, "server token create "+args[0]+" --role "+role, cluster, func() (on string, err error) {
					secret, t, err = access.NewToken(cmd.Context(), st, args[0], server.Role(role), cluster, life, reason)
					return t.ID, err
				})
				if err != nil {
					return err
				}
				return out.Print(h.Out, created{secret, t}, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, secret)
					return err
				})
			})
		},
	}
	c.Flags().StringVar(&role, "role", string(server.Read), "what the token allows: "+strings.Join(access.Roles(), ", "))
	c.Flags().StringVar(&cluster, "cluster", "", "limit the token to this cluster (default: all)")
	c.Flags().DurationVar(&life, "expires", 30*24*time.Hour, "how long the token is valid; 0: until it is revoked, which needs --reason")
	c.Flags().StringVar(&reason, "reason", "", "why the token lasts for as long as it does, for naupegos server token list")
	out.Bind(c)
	return c
}

func newTokenListCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens",
		Example: "  naupegos server token list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withStore(cmd.Context(), func(st store.Store) error {
				all, err := st.Tokens(cmd.Context())
				if err != nil {
					return err
				}
				if all == nil {
					all = []store.Token{}
				}
				return out.Print(h.Out, all, func(w io.Writer) error { return tokenTable(w, all) })
			})
		},
	}
	out.Bind(c)
	return c
}

func tokenTable(w io.Writer, all []store.Token) error {
	t := output.NewTable(w)
	t.Head("ID\tNAME\tROLE\tCLUSTER\tCREATED\tLAST USED\tSTATE\tREASON")
	for _, k := range all {
		state, cluster := "valid", k.Cluster
		switch {
		case !k.Revoked.IsZero():
			state = "revoked " + k.Revoked.Local().Format(time.DateTime)
		case !k.Expires.IsZero() && time.Now().After(k.Expires):
			state = "expired " + k.Expires.Local().Format(time.DateTime)
		case !k.Expires.IsZero():
			state = "valid until " + k.Expires.Local().Format(time.DateTime)
		}
		if cluster == "" {
			cluster = "all"
		}
		used := "never"
		if !k.Used.IsZero() {
			used = k.Used.Local().Format(time.DateTime)
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Role, cluster, k.Created.Local().Format(time.DateTime), used, state, output.Dash(k.Reason))
	}
	return t.Flush()
}

func newTokenRevokeCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token, at once and for good",
		Example: "  naupegos server token revoke 3f9c1b2a4d5e",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.withStore(cmd.Context(), func(st store.Store) error {
				err := access.OnHost(cmd.Context(), st, "server token revoke "+args[0], "", func() (string, error) { return "", st.RevokeToken(cmd.Context(), args[0]) })
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(h.Out, "Token %s is revoked.\n", args[0])
				return err
			})
		},
	}
}
