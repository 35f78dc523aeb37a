// Package env holds the inputs of all work on a cluster: its document, facts, keys, bundles and provider, and the list of wanted machines. It observes
// nothing but the provider's machines, and plans nothing.
package env

import (
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
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/vault"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// Env is the knowledge about a cluster before anything is asked: its document, and the facts of earlier runs.
type Env struct {
	Doc         *v1alpha1.Cluster
	Record      *store.Cluster
	Facts       *memory.Facts
	Current     *bundle.Bundle            // of the release that machines run; nil: it is not here, or one of the others is not
	Newest      *bundle.Bundle            // the newest one of that release; Current may be an older one that the cluster was built with
	ByRelease   map[string]*bundle.Bundle // by version, of all releases that are used in the middle of an upgrade
	Find        Bundles
	Agent       AgentBinary
	Secrets     pki.Secrets
	Store       store.Store
	PKI         *pki.PKI
	Vault       *vault.Server // signs the cluster's certificates; nil: pki does
	Prov        provider.Provider
	Credentials Credentials
	Bare        bool          // machines are to be without what only Naupegos uses
	StateDir    string        // the store's directory
	PublicKeys  []string      // Naupegos' own SSH keys that machines let in, as lines of authorized_keys; it uses the first
	Rotation    string        // the fact of the rotation whose phase this Env works in
	slotMu      sync.Mutex    // guards slots; LoadTarget holds it during the first look, for which all others wait
	slots       []wanted.Slot // the wanted machines, which Known returns
}

// Name returns the cluster's name.
func (c *Env) Name() string { return c.Doc.Metadata.Name }

// Bundle returns the bundle of the release that machines run; nil where it is not here.
func (c *Env) Bundle() *bundle.Bundle { return c.Current }

// AgentBinary is naupegos-agent on this side.
type AgentBinary struct {
	Path   string // here
	Digest string // SHA-256, hexadecimal
}

// RemotePath is where the agent lies on machines.
func (a AgentBinary) RemotePath() string {
	return machine.AgentDir + "/" + a.Digest + "/naupegos-agent"
}

// ReadAgent finds naupegos-agent in a file of this side and takes its digest.
func ReadAgent(path string) (AgentBinary, error) {
	f, err := os.Open(path)
	if err != nil {
		return AgentBinary{}, fail.Wrap(fail.Invalid, err, "read naupegos-agent").Do("it belongs beside naupegos; `make build` makes both")
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return AgentBinary{}, fail.Wrap(fail.Internal, err, "read %s", path)
	}
	return AgentBinary{Path: path, Digest: hex.EncodeToString(h.Sum(nil))}, nil
}

// ErrNotBootstrapped says that a verb needs a cluster that has come up once.
func ErrNotBootstrapped(name string) error {
	return fail.New(fail.NotReady, "cluster %s has not come up yet", name).Do("naupegos apply finishes it")
}

// ErrNoSuchMachine names the machines that there are.
func ErrNoSuchMachine(name, cluster string, known []string) error {
	err := fail.New(fail.NotFound, "cluster %s has no machine %s", cluster, name)
	if len(known) == 0 {
		return err.Do("it has no machines yet; naupegos apply creates them")
	}
	return err.Do("%s", Among(name, known))
}

// Among is the hint about a name that is not among those known: the nearest name, also of one that was given without the cluster's name before it, and
// all of them.
func Among(name string, known []string) string {
	all := "it has " + strings.Join(known, ", ")
	near := fail.Nearest(name, known)
	if near == "" {
		full, short := map[string]string{}, []string{}
		for _, k := range known {
			words := strings.Split(k, "-")
			s := strings.Join(words[max(0, len(words)-1-strings.Count(name, "-")):], "-")
			full[s], short = k, append(short, s)
		}
		near = full[fail.Nearest(name, short)]
	}
	if near != "" {
		return fmt.Sprintf("did you mean %s? %s", near, strings.ToUpper(all[:1])+all[1:])
	}
	return all
}

// EtcdTime bounds a request to etcd, observeTime an observation of an API or etcd that may not answer: timeouts.connect raises both for slow hosts.
func EtcdTime(doc *v1alpha1.Cluster) time.Duration {
	return max(8*time.Second, doc.Spec.Timeouts.Connect.Duration)
}

// ObserveTime bounds an observation of the API or of etcd: 20 seconds, or twice EtcdTime if that is longer.
func ObserveTime(doc *v1alpha1.Cluster) time.Duration { return max(20*time.Second, 2*EtcdTime(doc)) }
