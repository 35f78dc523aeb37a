package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/provider"
)

func newCertsCmd(a *App) *cobra.Command {
	c := &cobra.Command{Use: "certs", Short: "Certificates of a cluster"}
	c.AddCommand(newCertsListCmd(a), newCertsRotateCmd(a), newCertsIssuerCmd(a))
	return c
}

func newCertsIssuerCmd(a *App) *cobra.Command {
	var file string
	var check, policy, rotation bool
	var out output.Format
	c := &cobra.Command{
		Use:   "issuer NAME | -f FILE",
		Short: "Say what a cluster needs of the Vault that signs its certificates, or check it",
		Long: `Print the commands that set up, in the Vault or OpenBao of the document (spec.pki.issuer.vault), all that the cluster needs there: a PKI
secrets engine for each authority, roles, a policy, and what naupegos signs in with. Somebody runs them once who may do that; naupegos itself
never needs such rights. --policy prints the policy alone.

With --rotation, print the commands that make what naupegos certs rotate --authorities needs besides: a policy, and a token by it that ends
within a day. certs rotate takes the token from $VAULT_ROTATION_TOKEN.

With --check, look at all of that instead, and say what is missing and what to do about it: the server (reached, unsealed, its clock), what
signs in, mounts, issuers, roles, rights, how long certificates may live. naupegos doctor and the first apply look at the same.

Exit status of --check: 0 where nothing fails, 4 where something does.`,
		Example: `  naupegos certs issuer -f cluster.yaml > vault-setup.sh
  naupegos certs issuer -f cluster.yaml --check
  naupegos certs issuer demo --policy
  naupegos certs issuer demo --rotation > vault-rotation.sh`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			switch {
			case (name == "") == (file == ""):
				return fail.New(fail.Invalid, "say which cluster").Do("name it, or give its document by -f FILE")
			case check && policy, check && rotation, policy && rotation:
				return fail.New(fail.Invalid, "--check, --policy and --rotation exclude each other")
			}
			doc, _, err := a.examined(cmd.Context(), name, file)
			if err != nil {
				return err
			}
			spec := doc.Spec.PKI.VaultIssuer()
			if spec == nil {
				return fail.New(fail.Invalid, "cluster %s signs its certificates itself", doc.Metadata.Name).Do("spec.pki.issuer.vault names a Vault that is to do so")
			}
			switch {
			case check:
				return a.checkIssuer(cmd.Context(), name, doc, &out)
			case policy:
				_, err = fmt.Fprint(a.Out, vault.Policy(*spec))
			case rotation:
				_, err = fmt.Fprint(a.Out, vault.RotationCommands(doc.Metadata.Name, *spec))
			default:
				_, err = fmt.Fprint(a.Out, vault.Commands(doc.Metadata.Name, *spec))
			}
			return err
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the cluster of this document; - for standard input")
	c.Flags().BoolVar(&check, "check", false, "look whether all of it is there")
	c.Flags().BoolVar(&policy, "policy", false, "print the policy alone")
	c.Flags().BoolVar(&rotation, "rotation", false, "print what a rotation of the authorities needs besides")
	out.Bind(c)
	return c
}

// checkIssuer prints what a look at the Vault of a cluster finds.
func (a *App) checkIssuer(ctx context.Context, name string, doc *v1alpha1.Cluster, out *output.Format) error {
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		return a.checkIssuerAfar(ctx, c, name, out)
	}
	var checks []provider.Check
	o := sessionOptions{look: true, readOnly: true}
	look := func(s *session) (err error) {
		checks, err = s.Cluster.CheckIssuer(ctx)
		return err
	}
	if err := a.onEither(ctx, name, doc, o, look); err != nil {
		return err
	}
	return a.printChecks(checks, out)
}

// checkIssuerAfar has a server look: it is who asks the Vault.
func (a *App) checkIssuerAfar(ctx context.Context, c *client.Client, name string, out *output.Format) error {
	if name == "" {
		return fail.New(fail.Refused, "--check of -f FILE looks from here, and a server is named").Do("name a cluster that the server knows, or leave away --server and $NAUPEGOS_SERVER")
	}
	got, err := client.See(ctx, c, name, operate.IssuerChecks, operate.Plainly{})
	if err != nil {
		return err
	}
	return a.printChecks(got.Items, out)
}

// printChecks prints checks, and ends as they say.
func (a *App) printChecks(checks []provider.Check, out *output.Format) error {
	if err := out.Print(a.Out, checks, func(w io.Writer) error { return checkTable(w, checks) }); err != nil {
		return err
	}
	return failing(checks)
}

func newCertsListCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "List every certificate with its expiry",
		Long: `List the authorities and every certificate that Naupegos issued for the cluster, the ones that expire first on top.
Certificates are renewed by naupegos apply and naupegos renew once their renewal date is past; kubelets rotate their own.`,
		Example: "  naupegos certs list demo\n  naupegos certs list demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			certs, err := see(cmd.Context(), a, args[0], operate.Certificates, operate.Plainly{})
			if err != nil {
				return err
			}
			return out.Print(a.Out, certs.Items, func(w io.Writer) error { return certTable(w, certs.Items, time.Now()) })
		},
	}
	out.Bind(c)
	return c
}

func certTable(w io.Writer, certs []pki.CertInfo, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CERTIFICATE\tAUTHORITY\tUSE\tEXPIRES\tLEFT\tRENEWED FROM")
	for _, c := range certs {
		use, renew := strings.Join(c.Usages, ", "), "-"
		if c.CA {
			use = "authority"
		} else {
			renew = c.RenewAt.Format(time.DateOnly)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%dd\t%s\n", c.Name, c.Authority, use, c.NotAfter.Format(time.DateOnly), int(c.NotAfter.Sub(now).Hours()/24), renew)
	}
	return t.Flush()
}

func newCertsRotateCmd(a *App) *cobra.Command {
	var f runFlags
	var g operate.Rotate
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Recreate authorities and keys and put them into use",
		Long: `Make the named kinds of keys again, and carry them to the machines as apply does, with the document that was applied last. Nothing fails
meanwhile, no node is drained, and no pod restarts but those of the control plane itself.

--authorities, --service-account and --ssh change in three phases, the next of which begins once everything is in the one before:

  1. Everything trusts the next keys beside the former ones. Until this is done, --abandon takes it back.
  2. Everything uses the next keys: servers, kubelets and Naupegos get other certificates, pods other tokens. With --hold it stays so until
     --finish: there is time to hand out kubeconfigs, for naupegos kubeconfig and naupegos handover write new ones by now.
  3. Nothing trusts the former keys. It begins only once a look at every machine and every pod's token finds none of them in use. Kubeconfigs,
     tokens and SSH keys that were handed out before are refused from then on, and Naupegos forgets the former keys.

Where the authorities are in Vault, it makes the next ones first, and has the former ones sign nothing more in the end. That takes a token in
$VAULT_ROTATION_TOKEN: naupegos certs issuer NAME --rotation prints the commands that make it.

Control-plane machines restart their servers one after another in each of them, and kubelets restart; so do the API servers for

--encryption, the key by which Secrets are encrypted in etcd: API servers learn to read by a new one, then write by it, all Secrets are
encrypted by it, and the API servers forget the former one. The store keeps the former key: backups of etcd from before need it.

--all is these four together, as far as the cluster has them. Whatever is interrupted goes on with the same command, or with naupegos apply.

These are rotated alone:

With --wireguard these are the keys of the gateways, and of the peers whose keys Naupegos made. Every WireGuard configuration that was
handed out before is void from then on: naupegos handover writes new ones. Peers with a publicKey in the document keep it.

With --cloud-credential it is the restricted application credential with which the cluster's own controllers ask OpenStack for load
balancers and volumes: a new one is made and put into use, then the former one is deleted. Where the cloud can hold it to that, the new
one admits only the calls that these controllers make, unless --without-access-rules says that it shall not: volumes of an encrypted type, and
load balancers with a certificate of Barbican, want one that is not held to them. What was handed over has credentials of its own, which stay.`,
		Example: `  naupegos certs rotate demo --all
  naupegos certs rotate demo --authorities --hold
  naupegos kubeconfig demo > admin.conf
  naupegos certs rotate demo --finish
  naupegos certs rotate demo --wireguard
  naupegos handover demo ./demo-handover --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := &verb{asked: operate.Asked{Verb: "certs rotate", Cluster: args[0], Rotate: &g}, flags: &f}
			if g.WireGuard {
				v.question = "Every WireGuard configuration of cluster " + args[0] + " that was handed out is void afterwards. Go on?"
			}
			began := time.Now()
			_, done, err := a.carry(cmd.Context(), v)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s\nIt took %v.\n", done.Said, time.Since(began).Round(100*time.Millisecond))
			return err
		},
	}
	c.Flags().BoolVar(&g.All, "all", false, "--authorities, --service-account, --encryption and --ssh together")
	c.Flags().BoolVar(&g.Authorities, "authorities", false, "the certificate authorities: of Kubernetes, of etcd and of the front proxy")
	c.Flags().BoolVar(&g.ServiceAccount, "service-account", false, "the key that signs service-account tokens")
	c.Flags().BoolVar(&g.SSH, "ssh", false, "the SSH key that Naupegos logs in to machines with")
	c.Flags().BoolVar(&g.Hold, "hold", false, "have the former keys trusted until --finish")
	c.Flags().BoolVar(&g.Finish, "finish", false, "go on with a rotation that was held")
	c.Flags().BoolVar(&g.Abandon, "abandon", false, "take back a rotation of which nothing is in use yet")
	c.Flags().BoolVar(&g.CloudCredential, "cloud-credential", false, "the cluster's own credential of its cloud")
	c.Flags().BoolVar(&g.Unbounded, "without-access-rules", false, "with --cloud-credential: let it make all calls in the project")
	c.Flags().BoolVar(&g.Encryption, "encryption", false, "the key by which Secrets are encrypted in etcd")
	c.Flags().BoolVar(&g.WireGuard, "wireguard", false, "the keys of gateways, and of peers whose keys Naupegos made")
	f.bind(c)
	return c
}
