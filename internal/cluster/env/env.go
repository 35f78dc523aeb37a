// Package env holds the inputs of all work on a cluster: its document, facts, keys, bundles and provider, and the list of wanted machines. It
// observes only the provider's machines, and makes no plans.
package env

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
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

// Env is what is known about a cluster before any machine is contacted: its document, and the facts of earlier runs.
type Env struct {
	Doc         *v1alpha1.Cluster
	Record      *store.Cluster
	Facts       *memory.Facts
	Current     *bundle.Bundle            // of the release that machines run; nil if it or the bundle of another running release is not in the library
	Newest      *bundle.Bundle            // the newest bundle of that release; Current may be an older one, with which the cluster was built
	ByRelease   map[string]*bundle.Bundle // bundles of all releases in use during an upgrade, by version
	Find        Bundles
	Agent       AgentBinary
	Secrets     pki.Secrets
	Store       store.Store
	PKI         *pki.PKI
	Vault       *vault.Server // signs the cluster's certificates; nil: pki does
	Prov        provider.Provider
	Credentials Credentials
	BMCs        func(netip.Addr) bool // whether a machine's BMC may have an address; nil: every address is allowed
	Bare        bool                  // leave out everything on machines that only Naupegos uses
	StateDir    string                // the store's directory
	PublicKeys  []string              // Naupegos' own SSH keys that machines accept, as lines of authorized_keys; it uses the first
	Rotation    string                // fact of the rotation whose phase this Env works in
	slotMu      sync.Mutex            // guards slots; LoadTarget holds it during the first observation, for which other callers wait
	slots       []wanted.Slot         // the wanted machines, which Known returns
}

// Name returns the cluster's name.
func (c *Env) Name() string { return c.Doc.Metadata.Name }

// Bundle returns the bundle of the release that machines run, or nil if the library does not have it.
func (c *Env) Bundle() *bundle.Bundle { return c.Current }

// AgentBinary is the naupegos-agent program on the local host.
type AgentBinary struct {
	Path   string // local path
	Digest string // SHA-256, hexadecimal
}

// RemotePath returns the path of the agent on machines.
func (a AgentBinary) RemotePath() string {
	return machine.AgentDir + "/" + a.Digest + "/naupegos-agent"
}

// ReadAgent returns the naupegos-agent program in a local file, with its digest.
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

// ErrNotBootstrapped is the error of a verb that needs a cluster that has been up before.
func ErrNotBootstrapped(name string) error {
	return fail.New(fail.NotReady, "cluster %s has not come up yet", name).Do("naupegos apply finishes it")
}

// ErrNoSuchMachine is the error of an unknown machine name; its hint lists the known machines.
func ErrNoSuchMachine(name, cluster string, known []string) error {
	err := fail.New(fail.NotFound, "cluster %s has no machine %s", cluster, name)
	if len(known) == 0 {
		return err.Do("it has no machines yet; naupegos apply creates them")
	}
	return err.Do("%s", Among(name, known))
}

// Among returns the hint for an unknown name: the nearest known name, also if the cluster's name was left out in front, and all known names.
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

// EtcdTime bounds a request to etcd: 8 seconds, or timeouts.connect if that is longer.
func EtcdTime(doc *v1alpha1.Cluster) time.Duration {
	return max(8*time.Second, doc.Spec.Timeouts.Connect.Duration)
}

// ObserveTime bounds an observation of the API or of etcd: 20 seconds, or twice EtcdTime if that is longer.
func ObserveTime(doc *v1alpha1.Cluster) time.Duration { return max(20*time.Second, 2*EtcdTime(doc)) }
