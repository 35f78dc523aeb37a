package serving

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/metrics"
	"github.com/naupegos/naupegos/internal/server/notify"
	"github.com/naupegos/naupegos/internal/store"
)

func newWebhookCmd(h Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "webhook",
		Short: "Add, list, test and remove webhooks that announce what needs a person",
		Long: `Servers announce what needs a person to webhooks: in Slack, in Microsoft Teams, or as JSON. Each change is announced once. The
webhooks' URLs are secrets, which the store keeps encrypted.`,
	}
	c.AddCommand(newWebhookAddCmd(h), newWebhookListCmd(h), newWebhookTestCmd(h), newWebhookRemoveCmd(h))
	return c
}

func newWebhookAddCmd(h Host) *cobra.Command {
	var hook notify.Webhook
	var file, caFile string
	var replace bool
	c := &cobra.Command{
		Use:   "add NAME --url-file FILE --format FORMAT",
		Short: "Add a webhook, or replace it",
		Long: `Add a webhook. Its URL is read from a file or from standard input (-), and never printed. It begins with https://; http:// is
possible only to this host itself. Servers take the webhook up within seconds; its first message says what needs a person
now.

Formats: slack is for incoming webhooks of Slack, and of Mattermost and Rocket.Chat; teams for workflows of Microsoft Teams
with the trigger "When a Teams webhook request is received", as an Adaptive Card; json for all others.

Events: failed (a job or command failed), stopped (it stopped in the middle, and the same command continues it), unattended
(an unattended task fails again and again), health (a cluster's state changed), backup (overdue, or not rehearsed for eight
days), certificate (expires within 30 days), machines (wait for approval), store (the store or the audit log can't be
written). With --clusters, the receiver gets nothing that is about no cluster: machines and store.`,
		Example: "  naupegos server webhook add ops --url-file /root/slack-url --format slack\n" +
			"  naupegos server webhook add team-a --url-file - --format teams --clusters 'team-a-*' --events failed,stopped,health < url\n" +
			"  naupegos server webhook add desk --url-file /root/desk-url --format json --ca-file /root/desk-ca.pem --replace",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			hook.Name = args[0]
			address, err := readSecret(file, "--url-file", cmd.InOrStdin())
			if err != nil {
				return err
			}
			var ca []byte
			if caFile != "" {
				if ca, err = os.ReadFile(caFile); err != nil {
					return fail.Wrap(fail.Invalid, err, "read --ca-file")
				}
			}
			err = h.withWebhooks(cmd.Context(), "add", hook.Name, func(all notify.Webhooks) (err error) {
				hook, err = all.Add(cmd.Context(), hook, address, ca, replace)
				return err
			})
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Webhook %s announces to %s. Try it: naupegos server webhook test %s\n", hook.Name, hook.Host, hook.Name)
			}
			return err
		},
	}
	c.Flags().StringVar(&file, "url-file", "", "file with the URL; - for standard input")
	c.Flags().StringVar(&hook.Format, "format", "", "how the receiver takes messages: slack, teams or json")
	c.Flags().StringSliceVar(&hook.Clusters, "clusters", nil, "clusters to announce, or patterns (repeatable; default: all, and events of the server itself)")
	c.Flags().StringSliceVar(&hook.Events, "events", nil, "events to announce: "+strings.Join(notify.Events(), ", ")+" (repeatable; default: all)")
	c.Flags().StringVar(&caFile, "ca-file", "", "file with the only authority to accept for the receiver's certificate (default: this host's authorities)")
	c.Flags().BoolVar(&replace, "replace", false, "replace a webhook of this name")
	return c
}

// withWebhooks calls do with the webhooks of the store. Unless verb is empty, the audit has it, with the webhook's name, before and after.
func (h Host) withWebhooks(ctx context.Context, verb, name string, do func(notify.Webhooks) error) error {
	if verb != "" {
		if err := notify.CheckName(name); err != nil { // before the audit has it
			return err
		}
	}
	return h.withStore(ctx, func(st store.Store) error {
		act := func() (string, error) { return "", do(notify.NewWebhooks(st.ServerSecrets())) }
		if verb == "" {
			_, err := act()
			return err
		}
		return access.OnHost(ctx, st, "server webhook "+verb+" "+name, "", act)
	})
}

func newWebhookListCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the webhooks, with their last success and failure, and without their URLs",
		Example: "  naupegos server webhook list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withWebhooks(cmd.Context(), "", "", func(all notify.Webhooks) error {
				list, err := all.List(cmd.Context())
				if err != nil {
					return err
				}
				return out.Print(h.Out, list, func(w io.Writer) error { return webhookTable(w, list) })
			})
		},
	}
	out.Bind(c)
	return c
}

func webhookTable(w io.Writer, all []notify.Listed) error {
	t := output.NewTable(w)
	t.Head("NAME\tFORMAT\tHOST\tCLUSTERS\tEVENTS\tSENT\tFAILED\tFAILURE")
	for _, k := range all {
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.Format, k.Host, cmp.Or(strings.Join(k.Clusters, ","), "all"), cmp.Or(strings.Join(k.Events, ","), "all"), at(k.Sent), at(k.Failed), output.Dash(k.Failure))
	}
	return t.Flush()
}

func newWebhookTestCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send a test message to a webhook, and show the receiver's answer",
		Long: `Send a test message to a webhook from this host, with the proxy that this command's environment names, and show the
receiver's answer. Teams answers before it posts the message: look into the channel, too.

Exit status: 0 if the receiver took the message, 7 if it does not answer, 4 if it refused it.`,
		Example: "  naupegos server webhook test ops",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var hook notify.Webhook
			var said string
			err := h.withWebhooks(cmd.Context(), "test", args[0], func(all notify.Webhooks) (err error) {
				hook, said, err = all.Test(cmd.Context(), args[0])
				return err
			})
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Webhook %s took the message: %s answered %s\n", hook.Name, hook.Host, said)
			}
			return err
		},
	}
}

func newWebhookRemoveCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a webhook: servers announce nothing more to it",
		Example: "  naupegos server webhook remove ops",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := h.withWebhooks(cmd.Context(), "remove", args[0], func(all notify.Webhooks) error { return all.Remove(cmd.Context(), args[0]) })
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Webhook %s is removed.\n", args[0])
			}
			return err
		},
	}
}

// outward returns the parts that send something to other hosts: the audit log, and what needs a person.
func (h Host) outward(f *flags, st store.Store, gate *access.Gate, self string, told *metrics.Metrics, log *slog.Logger) ([]server.Part, error) {
	parts, err := f.forwards(st, log)
	if err != nil {
		return nil, err
	}
	n := notify.New(notify.Config{Store: st, Self: self, Ping: storePing(st), Unwritten: gate.Unwritten, Pages: f.issuer.pages.URL, Counted: told.Webhook, Log: log})
	return append(parts, server.Part{Name: "webhooks", Run: n.Run}), nil
}
