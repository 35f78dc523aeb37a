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
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/judge"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/policy"
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
	AgentPath string                                // naupegos-agent on this side
	Given     *Given                                // what the store will know of a cluster that it does not know yet; nil: nothing
	Closed    bool                                  // files and variables of this host are not for what the document names: it names credentials
	Ask       func(question string) (string, error) // asks for a password on the operator's terminal; nil: there is none
	ReadOnly  bool                                  // nothing is remembered before Commit: facts and secrets that planning makes are kept in memory
	// RenewBefore is how long before its end a certificate is due; 0 means what pki.Options says.
	RenewBefore time.Duration
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
	vault   *vault.Server // signs the cluster's certificates; nil: pki does
	prov    provider.Provider
	named   credentials
	dialer  *remote.Dialer
	plane   plane
	judge   judge.Judge // checks machines' facts

	only      []parts.Part // what is planned for; nil: everything
	pauseAt   string       // the machine after which a roll pauses; empty: none
	leftOut   bool         // the last plan left something out for one of these
	releasing bool         // machines are to be without what only Naupegos uses

	stateDir   string   // the store's directory
	publicKeys []string // Naupegos' own SSH keys that machines let in, as lines of authorized_keys; it uses the first
	rotation   string   // the fact of the rotation whose phase c works in

	slotMu sync.Mutex    // guards slots; held during the first look, for which all others wait: see loadTarget
	slots  []wanted.Slot // the wanted machines; read it by known

	introducing sync.Mutex // others are told of one machine at a time: what is told was rendered of all that are known

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
		named: credentials{policy.NewCredentials(d.Store.ServerSecrets()), d.Document.Metadata.Name, d.Closed},
	}
	if d.Given != nil {
		for name, value := range d.Given.Secrets {
			if err := secrets.Put(ctx, name, value); err != nil {
				return nil, err
			}
		}
	}
	c.plane = c
	with := pki.Options{RenewBefore: d.RenewBefore}
	if spec := c.doc.Spec.PKI.VaultIssuer(); spec != nil {
		var err error
		if c.vault, err = vault.New(c.Name(), *spec, vault.Options{Credential: c.named.value(spec.Auth.Credential, spec.Address), Closed: d.Closed}); err != nil {
			return nil, err
		}
		with.Issuer = c.vault
	}
	c.pki = pki.Open(secrets, with)
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
	if c.dialer, err = c.newDialer(ctx, d.Ask); err != nil {
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
		Runner: c.dialer, Hosts: memory.Hosts{Facts: c.facts}, HostKeys: memory.HostKeys{Facts: c.facts}, SSHKeys: c.authorizedKeys(), Store: c.store,
		CloudLogin: c.named.cloud(c.doc), Closed: c.named.closed,
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

// CheckChanges refuses, field by field (v1alpha1.Refusal), what a cluster that is up can't follow: the document is compared with the
// one that the cluster was last brought to. Before the API has answered for the first time everything may change.
func CheckChanges(rec *store.Cluster, doc *v1alpha1.Cluster) error {
	return checkChanges(memory.NewFacts(rec, nil), rec, doc)
}

func checkChanges(f *memory.Facts, rec *store.Cluster, doc *v1alpha1.Cluster) error {
	was := f.Get(memory.Converged)
	if was == "" {
		was = string(rec.Document) // it was up before this was remembered, or never came to its end
	}
	if was == "" || !f.Bootstrapped() {
		return nil
	}
	before, err := v1alpha1.Parse("the document that "+rec.Name+" was brought to", []byte(was))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "compare the document with what cluster %s was last brought to", rec.Name)
	}
	refused := v1alpha1.Refused(v1alpha1.Changes(before, doc))
	if no := releaseRefused(f, before.Spec.Kubernetes.Version, doc.Spec.Kubernetes.Version); no != nil {
		refused = append(v1alpha1.Refusal{*no}, refused...)
	}
	refused = append(refused, poolsRefused(f, before, doc)...)
	if len(refused) > 0 {
		return refused
	}
	return nil
}

// Converged remembers that the cluster is as its document says, defaults and all: another default of a later naupegos is a change then.
// And it remembers the bundle.
//
// Where the last plan was of a part of it and left something out, it is not: nothing is remembered.
func (c *Cluster) Converged(ctx context.Context) error {
	if c.leftOut {
		return nil
	}
	text, err := c.doc.Marshal()
	if err != nil {
		return err
	}
	if err := c.rememberBundle(ctx); err != nil {
		return err
	}
	if err := c.facts.Set(ctx, memory.Converged, string(text)); err != nil {
		return err
	}
	if err := c.rememberSoak(ctx); err != nil {
		return err
	}
	if err := scaling.Remember(ctx, c.facts, c.doc); err != nil {
		return err
	}
	if err := c.restored(ctx); err != nil {
		return err
	}
	return c.facts.Set(ctx, memory.Restored, "") // what came out of a backup is true again
}

// ConsentBundle is what the user must consent to before a cluster that is up gets its programs and images from another bundle of its
// release than the one it was built with.
const ConsentBundle = "other-bundle"

// builtWith returns the title and the ID of the bundle that the cluster was last brought to.
func (c *Cluster) builtWith() (title, id string) {
	title, id, _ = strings.Cut(c.facts.Get(memory.Bundle), " ")
	return title, id
}

// ReleaseOf is the release of Kubernetes that a cluster was last brought to, by what was learned of it; empty where it was to none.
func ReleaseOf(learned store.Facts) string {
	title, _, _ := strings.Cut(learned[store.Fact{Kind: string(memory.Bundle)}], " ")
	return title
}

// otherBundle reports whether the bundle at hand is another one of the same release than the one that the cluster, which is up, was
// built with.
func (c *Cluster) otherBundle() bool {
	title, was := c.builtWith()
	return c.bundle != nil && title == c.bundle.Manifest.Title() && was != c.bundle.ID && c.facts.Bootstrapped()
}

// newerBundle says that a newer bundle of the release is here than the one at hand; empty where there is none.
func (c *Cluster) newerBundle() string {
	if c.bundle == nil || c.newest == nil || c.newest.ID == c.bundle.ID || c.newest.Manifest.Title() != c.bundle.Manifest.Title() {
		return ""
	}
	return fmt.Sprintf("a newer bundle of Kubernetes %s is available, %s: the cluster keeps %s, with which it was built, until naupegos apply --consent %s",
		c.newest.Manifest.Title(), shortID(c.newest.ID), shortID(c.bundle.ID), ConsentBundle)
}

// bundleNote says what is to be known about the cluster's bundle; empty where all is as it was.
func (c *Cluster) bundleNote() string {
	if c.otherBundle() {
		_, was := c.builtWith()
		return fmt.Sprintf("bundle %s, with which the cluster was built, is not available here, but %s is: apply --consent %s takes programs and images from it",
			shortID(was), shortID(c.bundle.ID), ConsentBundle)
	}
	return c.newerBundle()
}

// planBundle has the user consent to another bundle, and remembers it.
func (a *applying) planBundle() {
	if !a.otherBundle() {
		return
	}
	_, was := a.builtWith()
	a.add(stagePrepare, &plan.Step{
		ID: "bundle", Action: plan.Change, Subject: "cluster", Consent: ConsentBundle,
		Title:   fmt.Sprintf("use bundle %s instead of %s", shortID(a.bundle.ID), shortID(was)),
		Reason:  "the available bundle is not the one that the cluster was built with",
		Details: []string{"every program and image that differs is replaced, machine by machine"},
		Run:     func(ctx context.Context, _ plan.Progress) error { return a.rememberBundle(ctx) },
	})
}

// rememberBundle remembers that the cluster is what its bundle holds.
func (c *Cluster) rememberBundle(ctx context.Context) error {
	if c.bundle == nil {
		return nil
	}
	return c.facts.Set(ctx, memory.Bundle, c.bundleToBe())
}

// bundleToBe is the fact of the bundle that the cluster is being brought to, which is remembered once it is.
func (c *Cluster) bundleToBe() string {
	if c.bundle == nil {
		return c.facts.Get(memory.Bundle)
	}
	return c.bundle.Manifest.Title() + " " + c.bundle.ID
}

// shortID is as much of a bundle's ID as people are shown.
func shortID(id string) string { return id[:min(len(id), 12)] }
