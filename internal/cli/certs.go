package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/watch"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/provider"
)

func newCertsCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "certs",
		Short:   "List and rotate a cluster's certificates and keys",
		Example: "  naupegos certs list demo\n  naupegos certs rotate demo --all",
	}
	c.AddCommand(newCertsListCmd(a), newCertsRotateCmd(a), newCertsIssuerCmd(a))
	return c
}

func newCertsIssuerCmd(a *App) *cobra.Command {
	var file string
	var check, policy, rotation bool
	var out output.Format
	c := &cobra.Command{
		Use:   "issuer NAME | -f FILE",
		Short: "Print the set-up of the Vault that signs a cluster's certificates, or check it",
		Long: `Print the commands that set up the Vault or OpenBao of the document (spec.pki.issuer.vault) for the cluster: a PKI
secrets engine for each authority, roles, a policy, and the credential that naupegos signs in with. An administrator
of that Vault runs them once; naupegos itself never needs such rights. --policy prints the policy only.

--rotation prints the commands that create what naupegos certs rotate --authorities needs in addition: a policy, and
a token with it that expires within a day. certs rotate reads the token from $VAULT_ROTATION_TOKEN.

--check tests all of this instead, and reports what is missing and what to do about it: the server (reachable,
unsealed, clock), the credential, mounts, issuers, roles, rights, and how long certificates may live. naupegos doctor
and the first apply run the same checks.

Exit status of --check: 0 if nothing fails, 4 if something does.`,
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
			doc, _, err := examined(cmd.Context(), a, name, file)
			if err != nil {
				return err
			}
			spec := doc.Spec.PKI.VaultIssuer()
			if spec == nil {
				return fail.New(fail.Invalid, "cluster %s signs its certificates itself", doc.Metadata.Name).Do("spec.pki.issuer.vault names a Vault that is to do so")
			}
			switch {
			case check:
				return checkIssuer(cmd.Context(), a, name, doc, &out)
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
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	c.Flags().BoolVar(&check, "check", false, "check the set-up instead of printing it")
	c.Flags().BoolVar(&policy, "policy", false, "print the policy only")
	c.Flags().BoolVar(&rotation, "rotation", false, "print what a rotation of the authorities needs in addition")
	out.Bind(c)
	return c
}

// checkIssuer prints the checks of a cluster's Vault.
func checkIssuer(ctx context.Context, a *App, name string, doc *v1alpha1.Cluster, out *output.Format) error {
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		return checkIssuerAfar(ctx, a, c, name, out)
	}
	var checks []provider.Check
	o := sessionOptions{look: true, readOnly: true}
	look := func(s *session) (err error) {
		checks, err = s.Cluster.CheckIssuer(ctx)
		return err
	}
	if err := onEither(ctx, a, name, doc, o, look); err != nil {
		return err
	}
	return printChecks(a, checks, out)
}

// checkIssuerAfar lets a server make the checks, because it is the Vault's client.
func checkIssuerAfar(ctx context.Context, a *App, c *client.Client, name string, out *output.Format) error {
	if name == "" {
		return fail.New(fail.Refused, "--check of -f FILE looks from here, and a server is named").Do("name a cluster that the server knows, or leave out --server and $NAUPEGOS_SERVER")
	}
	got, err := client.See(ctx, c, name, operate.IssuerChecks, operate.Plainly{})
	if err != nil {
		return err
	}
	return printChecks(a, got.Items, out)
}

// printChecks prints checks, and returns the exit code for them.
func printChecks(a *App, checks []provider.Check, out *output.Format) error {
	if err := out.Print(a.Out, checks, func(w io.Writer) error { return watch.Checks(w, checks, terminal.Limit(w)) }); err != nil {
		return err
	}
	return failing(checks)
}

func newCertsListCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "List every certificate with its expiry",
		Long: `List the authorities and every certificate that Naupegos issued for the cluster, those that expire first on top.
naupegos apply and naupegos renew renew certificates after their renewal date; kubelets rotate their own.`,
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
	t := output.NewTable(w)
	t.Head("CERTIFICATE\tAUTHORITY\tUSE\tEXPIRES\tLEFT\tRENEWED FROM")
	for _, c := range certs {
		use, renew := strings.Join(c.Usages, ", "), "-"
		if c.CA {
			use = "authority"
		} else {
			renew = c.RenewAt.Format(time.DateOnly)
		}
		t.Row("%s\t%s\t%s\t%s\t%dd\t%s\n", c.Name, c.Authority, use, c.NotAfter.Format(time.DateOnly), int(c.NotAfter.Sub(now).Hours()/24), renew)
	}
	return t.Flush()
}

func newCertsRotateCmd(a *App) *cobra.Command {
	var f runFlags
	var g operate.Rotate
	var out output.Format
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace authorities and keys while the cluster runs",
		Long: `Create new keys of the kinds that you name, and bring them to the machines as apply does, with the document that was
last applied. No request fails meanwhile, no node is drained, and no pods restart except the control plane's own.

--authorities, --service-account and --ssh change in three phases. Each phase begins when every machine has completed
the one before:
  1. Everything trusts the new keys besides the old ones. Until this is done, --abandon undoes the rotation.
  2. Everything uses the new keys: servers, kubelets and Naupegos get new certificates, pods new tokens. With --hold
     the rotation stops here until --finish: time to hand out kubeconfigs, because naupegos kubeconfig and naupegos
     handover write new ones from now on.
  3. Nothing trusts the old keys any more. This begins only when a scan of every machine and every pod's token finds
     none of them in use. From then on, kubeconfigs, tokens and SSH keys that were handed out before are refused, and
     Naupegos forgets the old keys.
Authorities that are in Vault are created there first, and the old ones stop signing at the end. That needs a token in
$VAULT_ROTATION_TOKEN: naupegos certs issuer NAME --rotation prints the commands that create it.

In each phase the control-plane machines restart their servers one after another, and kubelets restart. --encryption,
the key that encrypts Secrets in etcd, restarts the API servers: they learn to read with a new key, then write with
it, all Secrets are encrypted again, and the API servers forget the old key. The store keeps the old key, because
older backups of etcd need it.

--all rotates these four together, as far as the cluster has them. If a rotation is interrupted, run the same command
or naupegos apply to continue it.

The following are rotated on their own.

--wireguard replaces the keys of the gateways, and of the peers whose keys Naupegos created. WireGuard configurations
that were handed out before stop working: naupegos handover writes new ones. Peers with a publicKey in the document
keep it.

--cloud-credential replaces the restricted application credential that the cluster's own controllers use to ask
OpenStack for load balancers and volumes: the new one is created and put into use, then the old one is deleted. If the
cloud supports access rules, the new credential allows only the calls that these controllers make; volumes of an
encrypted type, and load balancers with a certificate from Barbican, need --without-access-rules. Credentials that were
handed over are separate, and stay.`,
		Example: `  naupegos certs rotate demo --all
  naupegos certs rotate demo --authorities --hold
  naupegos kubeconfig demo --file admin.conf
  naupegos certs rotate demo --finish
  naupegos certs rotate demo --wireguard
  naupegos handover demo ./demo-handover --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := &verb{asked: operate.Asked{Verb: "certs rotate", Cluster: args[0], Rotate: &g}, flags: &f, out: &out}
			if g.WireGuard {
				v.question = "All WireGuard configurations of cluster " + args[0] + " that were handed out become invalid. Continue?"
			}
			_, done, err := a.carry(cmd.Context(), v)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s\n%s", done.Said, done.Ended(args[0], "as wanted", done.Took(a.bundled)))
			return err
		},
	}
	c.Flags().BoolVar(&g.All, "all", false, "--authorities, --service-account, --encryption and --ssh together")
	c.Flags().BoolVar(&g.Authorities, "authorities", false, "the certificate authorities: of Kubernetes, of etcd and of the front proxy")
	c.Flags().BoolVar(&g.ServiceAccount, "service-account", false, "the key that signs service-account tokens")
	c.Flags().BoolVar(&g.SSH, "ssh", false, "the SSH key that Naupegos logs in to machines with")
	c.Flags().BoolVar(&g.Hold, "hold", false, "keep trusting the old keys until --finish")
	c.Flags().BoolVar(&g.Finish, "finish", false, "complete a rotation that was started with --hold")
	c.Flags().BoolVar(&g.Abandon, "abandon", false, "undo a rotation whose new keys are not in use yet")
	c.Flags().BoolVar(&g.CloudCredential, "cloud-credential", false, "the cluster's own credential for its cloud")
	c.Flags().BoolVar(&g.Unbounded, "without-access-rules", false, "with --cloud-credential: allow all calls in the project")
	c.Flags().BoolVar(&g.Encryption, "encryption", false, "the key that encrypts Secrets in etcd")
	c.Flags().BoolVar(&g.WireGuard, "wireguard", false, "the keys of gateways, and of peers whose keys Naupegos created")
	f.bind(c)
	out.Bind(c)
	return c
}
