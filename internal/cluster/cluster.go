// Package cluster says what a cluster should be and which steps lead there: apply, scale, replace, destroy.
//
// Every verb observes (the provider's machines, each machine's own report, the Kubernetes API, etcd), compares that with
// the Cluster document and returns a plan; package plan carries it out. Resume after a crash is: observe and plan again.
// It may know every other package but the command line.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/providers"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
)

// Bundles finds or makes the bundle of a Kubernetes release: the one to use and the newest one that is here, which are mostly the same. Both
// are nil where it is not here, and is not needed enough to be made.
type Bundles func(ctx context.Context, version string) (use, newest *bundle.Bundle, err error)

// Deps is what a Cluster is made from. All is required but Bundles and AgentPath, without which nothing can be built:
// observing and destroying still work.
type Deps struct {
	Document  *v1alpha1.Cluster // defaulted and valid
	Record    *store.Cluster    // what the store knows of it
	Store     store.Store
	Secrets   pki.Secrets // of this cluster
	Bundles   Bundles
	AgentPath string // naupegos-agent on this side
	Given     *Given // what the store will know of a cluster that it does not know yet; nil: nothing
	ReadOnly  bool   // nothing is remembered before Commit: facts and secrets that planning makes are kept in memory
}

// Cluster is one cluster with everything that is needed to observe and change it.
type Cluster struct {
	doc     *v1alpha1.Cluster
	rec     *store.Cluster
	facts   *memory.Facts
	bundle  *bundle.Bundle            // of the release that machines run; nil: it is not here, or one of the others is not
	newest  *bundle.Bundle            // the newest one of that release; bundle may be an older one that the cluster was built with
	others  map[string]*bundle.Bundle // by version, of all releases that are used in the middle of an upgrade
	find    Bundles
	agent   agentBinary
	secrets pki.Secrets
	store   store.Store
	pki     *pki.PKI
	prov    provider.Provider
	dialer  *remote.Dialer

	only      []parts.Part // what is planned for; nil: everything
	pauseAt   string       // the machine after which a roll pauses; empty: none
	leftOut   bool         // the last plan left something out for one of these
	releasing bool         // machines are to be without what only Naupegos uses

	stateDir   string   // the store's directory
	publicKeys []string // Naupegos' own SSH keys that machines let in, as lines of authorized_keys; it uses the first
	rotation   string   // the fact of the rotation whose phase c works in

	slotMu sync.Mutex    // guards slots; held during the first look, for which all others wait: see loadTarget
	slots  []wanted.Slot // the wanted machines; read it by known

	mu  sync.Mutex
	api *kube.Client
}

// Open prepares a cluster's dependencies: its keys, its provider and the SSH connections. Close it after use.
func Open(ctx context.Context, d Deps) (*Cluster, error) {
	secrets := d.Secrets
	st := d.Store
	if d.ReadOnly {
		secrets, st = memory.NewOverlay(secrets), nil
	}
	c := &Cluster{
		doc: d.Document, rec: d.Record, find: d.Bundles, secrets: secrets, store: d.Store, facts: memory.NewFacts(d.Record, st), stateDir: d.Store.Dir(),
	}
	if d.Given != nil {
		for name, value := range d.Given.Secrets {
			if err := secrets.Put(ctx, name, value); err != nil {
				return nil, err
			}
		}
	}
	c.pki = pki.Open(secrets, pki.Options{})
	if err := c.useKeys(ctx); err != nil {
		return nil, err
	}
	if err := c.pki.Ensure(ctx); err != nil {
		return nil, err
	}
	if d.AgentPath != "" {
		a, err := readAgent(d.AgentPath)
		if err != nil {
			return nil, err
		}
		c.agent = a
	}
	err := c.gather(ctx)
	if err != nil {
		return nil, err
	}
	if c.dialer, err = c.newDialer(ctx); err != nil {
		return nil, err
	}
	if c.prov, err = c.newProvider(); err != nil {
		return nil, err
	}
	return c, nil
}

// Commit ends planning for a Cluster that was opened ReadOnly: the secrets that were made are remembered, and whatever is made from
// now on. The steps of plans made before do the same. The caller has stored the record, with the facts in it, already.
func (c *Cluster) Commit(ctx context.Context) error {
	if o, ok := c.secrets.(*memory.Overlay); ok {
		if err := o.Commit(ctx); err != nil {
			return err
		}
	}
	c.facts.Commit(c.store)
	return nil
}

// Close ends the connections to machines.
func (c *Cluster) Close() error { return c.dialer.Close() }

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.doc.Metadata.Name }

// Provider returns where the machines come from.
func (c *Cluster) Provider() provider.Provider { return c.prov }

// newProvider makes the provider that the document names.
func (c *Cluster) newProvider() (provider.Provider, error) {
	return providers.New(providers.Options{
		Document: c.doc, ClusterID: c.rec.ID, Bundle: c.bundle, AgentPath: c.agent.path, PublicKey: c.publicKeys[0], Home: c.facts.Get(memory.Home),
		Runner: c.dialer, Hosts: memory.Hosts{Facts: c.facts}, HostKeys: memory.HostKeys{Facts: c.facts},
	})
}

// agentBinary is naupegos-agent on this side.
type agentBinary struct {
	path   string // here
	digest string // SHA-256, hexadecimal
}

// remotePath is where the agent lies on machines.
func (a agentBinary) remotePath() string {
	return machine.AgentDir + "/" + a.digest + "/naupegos-agent"
}

func readAgent(path string) (agentBinary, error) {
	f, err := os.Open(path)
	if err != nil {
		return agentBinary{}, fail.Wrap(fail.Invalid, err, "read naupegos-agent").Do("it belongs beside naupegos; `make build` makes both")
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return agentBinary{}, fail.Wrap(fail.Internal, err, "read %s", path)
	}
	return agentBinary{path: path, digest: hex.EncodeToString(h.Sum(nil))}, nil
}

// openBlob opens a blob of the bundle, to send it to a machine.
func (c *Cluster) openBlob(digest string) (io.ReadCloser, int64, error) {
	f, err := os.Open(c.bundle.Path(digest))
	if err != nil {
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s of bundle %s", digest, c.bundle.ID).Do("run naupegos bundle verify %s", c.bundle.ID)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s", digest)
	}
	return f, st.Size(), nil
}
