package serving

import (
	"context"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/siteset"
)

// policyFlags select the policy for documents' use of the server's host.
type policyFlags struct {
	file      string
	providers []string
	rules     *policy.Policy // once read
}

func (f *policyFlags) bind(to *pflag.FlagSet) {
	to.StringVar(&f.file, "policy", "", "file with the ServerPolicy: what documents may use of this host and its network")
	to.StringSliceVar(&f.providers, "providers", nil, "providers that documents may name: "+strings.Join(v1alpha1.Providers(), ", ")+" (default: openstack,metal); with local, operators with the role operate are root on this host")
}

// read returns the policy. A missing, unreadable or invalid file is an error, so that the server does not start without its policy.
func (f *policyFlags) read() (*policy.Policy, error) {
	rules := v1alpha1.DefaultServerPolicy()
	if f.file != "" {
		data, err := os.ReadFile(f.file)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the server's policy").Do("--policy names the file")
		}
		if rules, err = validation.ParseServerPolicy(f.file, data); err != nil {
			return nil, err
		}
	}
	if err := validation.CheckProviders(f.providers); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "--providers")
	}
	switch {
	case len(f.providers) == 0:
	case f.file != "":
		return nil, fail.New(fail.Invalid, "--providers and --policy are both given").Do("write the providers into the policy")
	default:
		rules.Providers = f.providers
	}
	f.rules = policy.New(rules)
	return f.rules, nil
}

// bmcs returns which addresses machines' BMCs may have; nil: all.
func (f *policyFlags) bmcs() func(netip.Addr) bool {
	if f.rules == nil {
		return nil
	}
	return f.rules.BMC
}

// renderVerb is the verb of naupegos server that renders the manifests and charts of one document.
const renderVerb = "render"

// newRenderCmd returns the verb that renders for a server.
func newRenderCmd() *cobra.Command {
	return &cobra.Command{
		Use: renderVerb, Hidden: true, Args: cobra.NoArgs,
		Short: "Render a document's manifests and charts, for naupegos server, which starts this by itself",
		RunE:  func(*cobra.Command, []string) error { return siteset.Answer(os.Stdin, os.Stdout) },
	}
}

// under returns a host whose sessions are all bound by a policy, and render documents' manifests and charts in processes of their own. Sessions get their
// options only from the host.
func (h Host) under(p *policy.Policy) Host {
	options, look, sets, turn := h.Options, h.Look, siteset.Apart("server", renderVerb), make(chan struct{}, 1)
	turns := operate.NewTurns()
	h.Options = func(a operate.Asked, n work.Need) operate.Options {
		o := options(a, n)
		o.Policy, o.Sets = p, sets
		if !n.CarryOut {
			o.Turns = turns
		}
		if o.Bundle != nil && (n.CarryOut || n.Prepare) {
			o.Bundle = o.Bundle.OneAtATime(h.hasBundle(a), func(doc *v1alpha1.Cluster, version string) error {
				if n.Build {
					return nil
				}
				return p.CheckBuild(doc, version)
			}, turn)
		}
		return o
	}
	h.Look = func(cluster string) operate.Options {
		o := look(cluster)
		o.Policy, o.Sets, o.Turns = p, sets, turns
		return o
	}
	return h
}

// hasBundle returns whether a request finds its bundle in the server's library.
func (h Host) hasBundle(a operate.Asked) operate.HasBundle {
	return func(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (bool, error) {
		if a.NewBundle {
			was = "" // the cluster's own does not do
		}
		return h.HasBundle(ctx, doc, version, was)
	}
}
