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
	"github.com/naupegos/naupegos/internal/store"
)

func newCertsCmd(a *App) *cobra.Command {
	c := &cobra.Command{Use: "certs", Short: "Certificates of a cluster"}
	c.AddCommand(newCertsListCmd(a), newCertsRotateCmd(a))
	return c
}

func newCertsListCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "List every certificate with its expiry",
		Long: `List the authorities and every certificate that Naupegos issued for the cluster, the ones that expire first on top.
Certificates are renewed by naupegos apply once their renewal date is past; kubelets rotate their own.`,
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

func newCertsRotateCmd(a *App) *cobra.Command {
	var f runFlags
	var wireGuard, credential, unbounded, encryption bool
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Recreate keys and put them into use",
		Long: `Make the named kind of keys again, and carry them to the machines as apply does, with the document that was applied last.

With --wireguard these are the keys of the gateways, and of the peers whose keys Naupegos made. Every WireGuard configuration that was
handed out before is void from then on: naupegos handover writes new ones. Peers with a publicKey in the document keep it.

With --cloud-credential it is the restricted application credential with which the cluster's own controllers ask OpenStack for load
balancers and volumes: a new one is made and put into use, then the former one is deleted. Where the cloud can hold it to that, the new
one admits only the calls that these controllers make, unless --without-access-rules says that it shall not: volumes of an encrypted type, and
load balancers with a certificate of Barbican, want one that is not held to them. What was handed over has credentials of its own, which stay.

With --encryption it is the key by which Secrets are encrypted in etcd: API servers learn to read by a new one, then write by it, all Secrets
are encrypted by it, and the API servers forget the former one. Control-plane machines restart one after another, three times each. The
store keeps the former key: backups of etcd from before need it.`,
		Example: "  naupegos certs rotate demo --encryption\n  naupegos certs rotate demo --cloud-credential\n  naupegos certs rotate demo --wireguard\n  naupegos handover demo ./demo-handover --force",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var rotate func(context.Context, string, *runFlags) error
			named := 0
			for _, k := range []struct {
				named  bool
				rotate func(context.Context, string, *runFlags) error
			}{{credential, a.rotateCredential(unbounded)}, {encryption, a.rotateEncryption}, {wireGuard, a.rotateWireGuard}} {
				if k.named {
					named, rotate = named+1, k.rotate
				}
			}
			if named != 1 {
				return fail.New(fail.Invalid, "name one kind of keys to rotate").Do("--cloud-credential, --encryption or --wireguard")
			}
			if unbounded && !credential {
				return fail.New(fail.Invalid, "--without-access-rules is for --cloud-credential")
			}
			return rotate(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().BoolVar(&credential, "cloud-credential", false, "the cluster's own credential of its cloud")
	c.Flags().BoolVar(&unbounded, "without-access-rules", false, "with --cloud-credential: let it make all calls in the project")
	c.Flags().BoolVar(&encryption, "encryption", false, "the key by which Secrets are encrypted in etcd")
	c.Flags().BoolVar(&wireGuard, "wireguard", false, "the keys of gateways, and of peers whose keys Naupegos made")
	f.bind(c)
	return c
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

// rotateEncryption has Secrets encrypted by another key.
func (a *App) rotateEncryption(ctx context.Context, name string, f *runFlags) error {
	return a.rotateAndApply(ctx, name, f, rotation{
		rotate: func(ctx context.Context, c *cluster.Cluster) (string, error) {
			key, err := c.RotateEncryption(ctx)
			return fmt.Sprintf("All Secrets of cluster %s are encrypted by %s in etcd, and no API server reads another key.", name, key), err
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
