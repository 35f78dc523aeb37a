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
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

func newCertsCmd(a *App) *cobra.Command {
	c := &cobra.Command{Use: "certs", Short: "Certificates of a cluster"}
	c.AddCommand(newCertsListCmd(a), newCertsRotateCmd(a), newCertsIssuerCmd(a))
	return c
}

func newCertsIssuerCmd(a *App) *cobra.Command {
	var file string
	var check, policy bool
	var out output.Format
	c := &cobra.Command{
		Use:   "issuer NAME | -f FILE",
		Short: "Say what a cluster needs of the Vault that signs its certificates, or check it",
		Long: `Print the commands that set up, in the Vault or OpenBao of the document (spec.pki.issuer.vault), all that the cluster needs there: a PKI
secrets engine for each authority, roles, a policy, and what naupegos signs in with. Somebody runs them once who may do that; naupegos itself
never needs such rights. --policy prints the policy alone.

With --check, look at all of that instead, and say what is missing and what to do about it: the server (reached, unsealed, its clock), what
signs in, mounts, issuers, roles, rights, how long certificates may live. naupegos doctor and the first apply look at the same.

Exit status of --check: 0 where nothing fails, 4 where something does.`,
		Example: `  naupegos certs issuer -f cluster.yaml > vault-setup.sh
  naupegos certs issuer -f cluster.yaml --check
  naupegos certs issuer demo --policy`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			switch {
			case (name == "") == (file == ""):
				return fail.New(fail.Invalid, "say which cluster").Do("name it, or give its document by -f FILE")
			case check && policy:
				return fail.New(fail.Invalid, "--check and --policy exclude each other")
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
			default:
				_, err = fmt.Fprint(a.Out, vault.Commands(doc.Metadata.Name, *spec))
			}
			return err
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the cluster of this document; - for standard input")
	c.Flags().BoolVar(&check, "check", false, "look whether all of it is there")
	c.Flags().BoolVar(&policy, "policy", false, "print the policy alone")
	out.Bind(c)
	return c
}

// checkIssuer prints what a look at the Vault of a cluster finds.
func (a *App) checkIssuer(ctx context.Context, name string, doc *v1alpha1.Cluster, out *output.Format) error {
	var checks []provider.Check
	o := sessionOptions{look: true, readOnly: true}
	look := func(s *session) (err error) {
		checks, err = s.Cluster.CheckIssuer(ctx)
		return err
	}
	if err := a.onEither(ctx, name, doc, o, look); err != nil {
		return err
	}
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
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				certs, err := s.Cluster.Certificates(cmd.Context())
				if err != nil {
					return err
				}
				return out.Print(a.Out, certs, func(w io.Writer) error { return certTable(w, certs, time.Now()) })
			})
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

// staged are the kinds of keys that are rotated in stages, which go together, and what is to become of a rotation that is under way.
type staged struct {
	authorities, serviceAccount, ssh, encryption, all bool
	hold, finish, abandon                             bool
}

func newCertsRotateCmd(a *App) *cobra.Command {
	var f runFlags
	var g staged
	var wireGuard, credential, unbounded bool
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
			var rotate func(context.Context, string, *runFlags) error
			named := 0
			for _, k := range []struct {
				named  bool
				rotate func(context.Context, string, *runFlags) error
			}{{credential, a.rotateCredential(unbounded)}, {g.named(), a.rotateStaged(g)}, {wireGuard, a.rotateWireGuard}} {
				if k.named {
					named, rotate = named+1, k.rotate
				}
			}
			if named != 1 {
				return fail.New(fail.Invalid, "say what to rotate").
					Do("--all, or one or more of --authorities, --service-account, --encryption and --ssh; or --cloud-credential; or --wireguard")
			}
			if unbounded && !credential {
				return fail.New(fail.Invalid, "--without-access-rules is for --cloud-credential")
			}
			return rotate(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().BoolVar(&g.all, "all", false, "--authorities, --service-account, --encryption and --ssh together")
	c.Flags().BoolVar(&g.authorities, "authorities", false, "the certificate authorities: of Kubernetes, of etcd and of the front proxy")
	c.Flags().BoolVar(&g.serviceAccount, "service-account", false, "the key that signs service-account tokens")
	c.Flags().BoolVar(&g.ssh, "ssh", false, "the SSH key that Naupegos logs in to machines with")
	c.Flags().BoolVar(&g.hold, "hold", false, "have the former keys trusted until --finish")
	c.Flags().BoolVar(&g.finish, "finish", false, "go on with a rotation that was held")
	c.Flags().BoolVar(&g.abandon, "abandon", false, "take back a rotation of which nothing is in use yet")
	c.Flags().BoolVar(&credential, "cloud-credential", false, "the cluster's own credential of its cloud")
	c.Flags().BoolVar(&unbounded, "without-access-rules", false, "with --cloud-credential: let it make all calls in the project")
	c.Flags().BoolVar(&g.encryption, "encryption", false, "the key by which Secrets are encrypted in etcd")
	c.Flags().BoolVar(&wireGuard, "wireguard", false, "the keys of gateways, and of peers whose keys Naupegos made")
	f.bind(c)
	return c
}

// named reports whether anything is asked for.
func (g staged) named() bool {
	return g.all || g.authorities || g.serviceAccount || g.ssh || g.encryption || g.hold || g.finish || g.abandon
}

// keys lists what is to be rotated, of a cluster's document, but the encryption of Secrets.
func (g staged) keys(doc *v1alpha1.Cluster) (keys []string) {
	if g.all || g.authorities {
		keys = append(keys, pki.Authorities()...)
	}
	if g.all || g.serviceAccount {
		keys = append(keys, pki.ServiceAccountKeyName)
	}
	if g.ssh || g.all && doc.Spec.Provider.Hosts == nil { // these know the user's key
		keys = append(keys, pki.SSHKeyName)
	}
	return keys
}

// check refuses what does not go together, and what the cluster of a document does not have.
func (g staged) check(doc *v1alpha1.Cluster) error {
	kinds := len(g.keys(doc)) > 0 || g.encryption
	switch {
	case g.finish && g.abandon, (g.finish || g.abandon) && (kinds || g.hold):
		return fail.New(fail.Invalid, "--finish and --abandon go with nothing else")
	case g.hold && len(g.keys(doc)) == 0:
		return fail.New(fail.Invalid, "--hold goes with --authorities, --service-account, --ssh or --all")
	case g.ssh && doc.Spec.Provider.Hosts != nil:
		return fail.New(fail.Invalid, "Naupegos has no SSH key of its own on hosts: it logs in with spec.provider.hosts.sshKeyFile").
			Do("have the hosts let another key in, and name it in the document")
	}
	return nil
}

// rotateStaged begins, finishes or abandons what is rotated in stages.
func (a *App) rotateStaged(g staged) func(context.Context, string, *runFlags) error {
	return func(ctx context.Context, name string, f *runFlags) error {
		var doc *v1alpha1.Cluster
		check := func(d *v1alpha1.Cluster) error {
			doc = d
			return g.check(d)
		}
		return a.rotateAndApply(ctx, name, f, rotation{check: check, rotate: func(ctx context.Context, c *cluster.Cluster) (string, error) {
			switch {
			case g.finish:
				return "Nothing of cluster " + name + " trusts the former keys any more.", c.FinishRotation(ctx)
			case g.abandon:
				return "Cluster " + name + " goes on with the keys that it had.", c.AbandonRotation(ctx)
			}
			return g.begin(ctx, c, doc)
		}})
	}
}

// begin has keys rotated; it returns what is to be said once they are.
func (g staged) begin(ctx context.Context, c *cluster.Cluster, doc *v1alpha1.Cluster) (done string, err error) {
	var said []string
	begun := true
	if keys := g.keys(doc); len(keys) > 0 {
		if begun, err = c.Rotate(ctx, keys, g.hold); err != nil {
			return "", err
		}
		end := "and nothing trusts the former ones"
		if g.hold {
			end = "and the former ones are trusted until naupegos certs rotate " + c.Name() + " --finish"
		}
		said = append(said, fmt.Sprintf("New keys of cluster %s are in use, %s: %s.", c.Name(), end, strings.Join(keys, ", ")))
		if g.all || g.authorities {
			said = append(said, fmt.Sprintf("naupegos kubeconfig %s writes the kubeconfig that is needed from now on.", c.Name()))
		}
	}
	if begun && (g.encryption || g.all && *doc.Spec.Security.EncryptionAtRest) { // else it was begun together with that which goes on
		key, err := c.RotateEncryption(ctx)
		if err != nil {
			return "", err
		}
		said = append(said, fmt.Sprintf("All Secrets of cluster %s are encrypted by %s in etcd, and no API server reads another key.", c.Name(), key))
	}
	return strings.Join(said, "\n"), nil
}

// rotateWireGuard gives gateways and peers other keys.
func (a *App) rotateWireGuard(ctx context.Context, name string, f *runFlags) error {
	return a.rotateAndApply(ctx, name, f, rotation{
		question: "Every WireGuard configuration of cluster " + name + " that was handed out is void afterwards. Go on?",
		check: func(doc *v1alpha1.Cluster) error { // told before a bundle is made for it
			if doc.Spec.Access.WireGuard == nil {
				return fail.New(fail.Invalid, "cluster %s has no WireGuard", name).Do("spec.access.wireguard in its document turns it on")
			}
			return nil
		},
		rotate: func(ctx context.Context, c *cluster.Cluster) (string, error) {
			who, err := c.RotateWireGuard(ctx)
			return fmt.Sprintf("New WireGuard keys are in use: %s.\nnaupegos handover %s DIR writes the peers' new configurations.", strings.Join(who, ", "), name), err
		},
	})
}

// rotation is one kind of keys that apply carries to the machines.
type rotation struct {
	question string                                                         // to agree to; empty means the ordinary one
	check    func(*v1alpha1.Cluster) error                                  // whether the document has such keys; may be nil
	rotate   func(context.Context, *cluster.Cluster) (done string, _ error) // recreates the keys; done is said once they are in use
}

// rotateAndApply recreates keys and applies. Where it is interrupted after the first, the next apply does the second.
func (a *App) rotateAndApply(ctx context.Context, name string, f *runFlags, r rotation) error {
	var doc *v1alpha1.Cluster
	stored := func(rec *store.Cluster) (_ *v1alpha1.Cluster, err error) {
		if doc, err = v1alpha1.Parse("the stored document of "+name, rec.Document); err == nil && r.check != nil {
			err = r.check(doc)
		}
		return doc, err
	}
	s, _, err := a.openNamed(ctx, name, sessionOptions{verb: "certs rotate", readOnly: true, bundle: bundles.Made, edit: stored})
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	done, err := r.rotate(ctx, s.Cluster)
	if err != nil {
		return err
	}
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Question = r.question
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, s.Record.Document) }
	if _, err := s.Converge(ctx, first, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\nIt took %v.\n", done, time.Since(began).Round(100*time.Millisecond))
	return err
}

// rotateCredential gives a cluster another credential of its cloud. Where it is interrupted, it can be run again.
func (a *App) rotateCredential(unbounded bool) func(ctx context.Context, name string, f *runFlags) error {
	why := ""
	if unbounded {
		why = "--without-access-rules asked for that"
	}
	return func(ctx context.Context, name string, f *runFlags) error { return a.newCredential(ctx, name, why, f) }
}

// newCredential makes a credential of the cloud and puts it into use; unbounded is as for cluster.PlanRotateCredential.
func (a *App) newCredential(ctx context.Context, name, unbounded string, f *runFlags) error {
	var doc *v1alpha1.Cluster
	stored := func(rec *store.Cluster) (_ *v1alpha1.Cluster, err error) {
		doc, err = v1alpha1.Parse("the stored document of "+name, rec.Document)
		if err == nil && doc.Spec.Provider.OpenStack == nil { // told before a bundle is made for it
			err = fail.New(fail.Invalid, "cluster %s has no credential of a cloud", name).Do("only clusters on OpenStack have one")
		}
		return doc, err
	}
	s, _, err := a.openNamed(ctx, name, sessionOptions{verb: "certs rotate", bundle: bundles.Made, edit: stored})
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Cluster.PlanRotateCredential(ctx, unbounded)
	if err != nil {
		return err
	}
	if err := s.CarryOut(ctx, p, a.terms(f, doc)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Cluster %s signs in to its cloud with a new credential; the former one is deleted.\n", name)
	return err
}
