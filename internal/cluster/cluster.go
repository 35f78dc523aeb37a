// Package cluster determines the wanted state of a cluster and the steps that lead to it: apply, scale, replace, destroy.
//
// Every verb observes (the provider's machines, each machine's own report, the Kubernetes API, etcd), compares that with the Cluster document and
// returns a plan, which package plan executes. After a crash, the same verb observes and plans again. It may import every other package except
// the command line.
package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/providers"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/store"
)

// Deps are the inputs of a Cluster. Bundles and AgentPath may be nil or empty: observing and destroying need neither.
type Deps struct {
	Document  *v1alpha1.Cluster // defaulted and valid
	Record    *store.Cluster    // the store's record of the cluster
	Store     store.Store
	Secrets   pki.Secrets // of this cluster
	Bundles   env.Bundles
	AgentPath string                                // naupegos-agent on this side
	Given     *backups.Given                        // secrets and facts of a cluster that is new to the store; nil: none
	Closed    bool                                  // the document may name credentials, and no files or variables of this host
	BMCs      func(netip.Addr) bool                 // whether a machine's BMC may have an address; nil: every address is allowed
	Ask       func(question string) (string, error) // asks for a password on the operator's terminal; nil: there is none
	ReadOnly  bool                                  // nothing is stored before Commit: facts and secrets from planning stay in memory
	Sets      siteset.Renderer                      // renders spec.manifests and spec.charts; nil: in this process
	// RenewBefore is how long before its end a certificate is due; 0 means the default of pki.Options.
	RenewBefore time.Duration
}

// Cluster is one cluster with everything that is needed to observe and change it.
type Cluster struct {
	*report.Reporter

	only    []parts.Part // parts to plan for; nil: all
	pauseAt string       // the machine after which a roll pauses; empty: none
	leftOut bool         // the last plan left something out for one of these
}

// Open prepares a cluster's dependencies: its keys, its provider and the SSH connections. Close it after use.
func Open(ctx context.Context, d Deps) (*Cluster, error) {
	secrets := d.Secrets
	st := d.Store
	if d.ReadOnly {
		secrets, st = memory.NewOverlay(secrets), nil
	}
	c := &Cluster{Reporter: &report.Reporter{Removal: &removal.Removal{Staged: &staged.Staged{Addons: &addons.Addons{Keeper: &backups.Keeper{Nodes: &nodes.Nodes{Observer: &observe.Observer{Renderer: &render.Renderer{Conn: &connect.Conn{Env: &env.Env{
		Doc: d.Document, Record: d.Record, Find: d.Bundles, Secrets: secrets, Store: d.Store, Facts: memory.NewFacts(d.Record, st), StateDir: d.Store.Dir(),
		Credentials: env.NewCredentials(policy.NewCredentials(d.Store.ServerSecrets()), d.Document.Metadata.Name, d.Closed), BMCs: d.BMCs,
	}}}}}}}}}}}
	if d.Given != nil {
		for name, value := range d.Given.Secrets {
			if err := secrets.Put(ctx, name, value); err != nil {
				return nil, err
			}
		}
	}
	c.Plane, c.Sets = c, d.Sets
	with := pki.Options{RenewBefore: d.RenewBefore}
	if spec := c.Doc.Spec.PKI.VaultIssuer(); spec != nil {
		var err error
		if c.Vault, err = vault.New(c.Name(), *spec, vault.Options{Credential: c.Credentials.Value(spec.Auth.Credential, spec.Address), Closed: d.Closed}); err != nil {
			return nil, err
		}
		with.Issuer = c.Vault
	}
	c.PKI = pki.Open(secrets, with)
	if err := c.UseKeys(ctx); err != nil {
		return nil, err
	}
	if err := c.PKI.Ensure(ctx); err != nil {
		return nil, err
	}
	if d.AgentPath != "" {
		a, err := env.ReadAgent(d.AgentPath)
		if err != nil {
			return nil, err
		}
		c.Agent = a
	}
	err := c.Gather(ctx)
	if err != nil {
		return nil, err
	}
	if c.Dialer, err = c.NewDialer(ctx, d.Ask); err != nil {
		return nil, err
	}
	if c.Prov, err = c.newProvider(); err != nil {
		return nil, err
	}
	return c, nil
}

// Commit ends planning for a Cluster that was opened ReadOnly: it stores the secrets that planning generated, and later secrets are stored at
// once. The steps of earlier plans do the same. The caller has stored the record, including its document and facts, before: credentials that the document
// no longer refers to are deleted.
func (c *Cluster) Commit(ctx context.Context) error {
	if o, ok := c.Secrets.(*memory.Overlay); ok {
		if err := o.Commit(ctx); err != nil {
			return err
		}
	}
	c.Facts.Commit(c.Store)
	return c.ForgetAccounts(ctx)
}

// Close ends the connections to machines.
func (c *Cluster) Close() error { return c.Dialer.Close() }

// newProvider makes the provider that the document names.
func (c *Cluster) newProvider() (provider.Provider, error) {
	return providers.New(providers.Options{
		Document: c.Doc, ClusterID: c.Record.ID, Bundle: c.Current, AgentPath: c.Agent.Path, PublicKey: c.PublicKeys[0], Home: c.Facts.Get(memory.Home),
		Runner: c.Dialer, Hosts: memory.Hosts{Facts: c.Facts}, HostKeys: memory.HostKeys{Facts: c.Facts}, SSHKeys: c.AuthorizedKeys(), Store: c.Store,
		CloudLogin: c.Credentials.Cloud(c.Doc), BMCs: c.BMCs, Closed: c.Credentials.Closed,
	})
}

// Converged records that the cluster conforms to its document, including defaults, so that a changed default of a later naupegos counts as a
// change. It also records the bundle.
//
// It records nothing if the last plan was limited to a part and left something out.
func (c *Cluster) Converged(ctx context.Context) error {
	if c.leftOut {
		return nil
	}
	text, err := c.Doc.Marshal()
	if err != nil {
		return err
	}
	if err := c.RememberBundle(ctx); err != nil {
		return err
	}
	if err := c.Facts.Set(ctx, memory.Converged, string(text)); err != nil {
		return err
	}
	if err := c.RememberSoak(ctx); err != nil {
		return err
	}
	if err := scaling.Remember(ctx, c.Facts, c.Doc); err != nil {
		return err
	}
	if err := c.Restored(ctx); err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.Restored, "") // facts from a backup are up to date again
}

// planBundle asks for consent to another bundle, and remembers the bundle.
func (a *applying) planBundle() {
	if !a.OtherBundle() {
		return
	}
	_, was := a.BuiltWith()
	a.add(stage.Prepare, &plan.Step{
		ID: "bundle", Action: plan.Change, Subject: "cluster", Consent: env.ConsentBundle,
		Title:   fmt.Sprintf("use bundle %s instead of %s", env.ShortID(a.Current.ID), env.ShortID(was)),
		Reason:  "the available bundle is not the one that the cluster was built with",
		Details: []string{"every program and image that differs is replaced, machine by machine"},
		Run:     func(ctx context.Context, _ plan.Progress) error { return a.RememberBundle(ctx) },
	})
}
