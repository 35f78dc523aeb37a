package metal

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// lockTokens returns machine lock-token.
func (v *Verbs) lockTokens() *cobra.Command {
	c := &cobra.Command{
		Use: "lock-token", Short: "Manage tokens of groups of machines that reboot in turn",
		Long: `Manage the tokens by which clients ask whether a machine may reboot, with the FleetLock protocol, without the certificate of
that machine. Zincati is such a client. A token is good for one group.`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(v.newLockToken(), v.listLockTokens(), v.dropLockToken())
	return c
}

func (v *Verbs) newLockToken() *cobra.Command {
	var life time.Duration
	c := v.verb("create GROUP", "Create a token of a group",
		"Create a token of a group, and print it: it is shown only here. It permits taking and releasing the reboot locks of the group's clients without a key.",
		"  naupegos machine lock-token create workers", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if life < 0 || life > 0 && life < time.Second {
				return fail.New(fail.Invalid, "--expires %s is less than a second", life)
			}
			made, err := c.NewLockToken(ctx, client.NewLockToken{Group: args[0], Seconds: int64(life / time.Second)})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(v.h.Out, made.Token)
			return err
		})
	c.Flags().DurationVar(&life, "expires", 0, "how long it is valid (default until it is revoked)")
	return c
}

func (v *Verbs) listLockTokens() *cobra.Command {
	var out output.Format
	c := v.verb("list", "List the tokens of groups", "List the tokens of groups of machines that reboot in turn. The tokens themselves are not shown.",
		"  naupegos machine lock-token list", cobra.NoArgs,
		func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.LockTokens(ctx)
			if err != nil {
				return err
			}
			return out.Print(v.h.Out, all.Items, func(w io.Writer) error {
				t := output.NewTable(w)
				t.Head("ID\tGROUP\tCREATED\tEXPIRES")
				for _, k := range all.Items {
					t.Row("%s\t%s\t%s\t%s\n", k.ID, k.Group, k.Created.Local().Format(time.DateTime), expiry(k.Expires))
				}
				return t.Flush()
			})
		})
	out.Bind(c)
	return c
}

func (v *Verbs) dropLockToken() *cobra.Command {
	return v.verb("revoke ID", "Revoke a token of a group", "Revoke a token of a group, by the ID that machine lock-token list shows. Places that it holds stay until their time is over.",
		"  naupegos machine lock-token revoke 5f2c6a1b9d3e", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DropLockToken(ctx, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(v.h.Out, "token %s is revoked\n", args[0])
			return err
		})
}
