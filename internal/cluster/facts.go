package cluster

import (
	"context"
	"maps"
	"sync"

	"github.com/naupegos/naupegos/internal/store"
)

// factKind says what a fact is about.
type factKind string

// The facts that Naupegos remembers of a cluster; none is a secret.
const (
	factBootstrapped factKind = "bootstrapped"   // "true" once the API answered through the endpoint for the first time
	factBundle       factKind = "bundle"         // title and ID of the bundle that the cluster was last brought to, parted by a space
	factConverged    factKind = "converged"      // the document that the cluster was last brought to, with defaults
	factHome         factKind = "home"           // where in the cloud the cluster lives (provider.Housed); set before anything is made there
	factInitial      factKind = "etcd-initial"   // the static initial etcd cluster, "name=peerURL,…"; fixed at the first apply
	factSmoked       factKind = "smoked"         // "true" once the smoke test has passed
	factCloudSmoked  factKind = "cloud-smoked"   // "true" once the cloud's smoke test has passed
	factShared       factKind = "shared-kernel"  // "true" once a machine turned out to be a container, whose kernel is its host's
	factCgroup       factKind = "cgroup-version" // "1" or "2": what the first control-plane machine has, and with it the cluster-wide kubelet configuration
	factRecorded     factKind = "kubeadm-config" // digest of the kubeadm configuration that the cluster has recorded
	factRestored     factKind = store.FactRestored

	factEncryption      factKind = "encryption"         // providers that API servers are told to read Secrets by, parted by commas; the first writes
	factEncryptionRun   factKind = "encryption-run"     // the same of those that all API servers run with
	factEncryptionWrote factKind = "encryption-written" // the provider that all Secrets were written by
	factEncryptionKey   factKind = "encryption-key"     // name of the key to encrypt Secrets by; empty means the first
)

// The facts of one subject each.
const (
	factEtcdJoin    factKind = "etcd-join"         // of a machine: the --initial-cluster value with which a later member joined
	factHost        factKind = "host"              // of a machine: a host given by address that Naupegos has worked on, as JSON
	factConsoleKeys factKind = "console-host-keys" // of a server's ID: SSH host keys that were read from its console, one a line
	factTrusted     factKind = "trusted-host-key"  // of a machine's ID or name: the SSH host key that was trusted at first use, where the user allowed that
	// Of a machine: its Decision. It is remembered before anything is done and forgotten once the machine is gone, so that apply goes on
	// where the verb was interrupted.
	factDecision         factKind = "decision"
	factWireGuardGateway factKind = "wireguard-gateway" // of a machine: its address
	factWireGuardPeer    factKind = "wireguard-peer"    // of a peer: its address
)

// facts are the record's, written through to the store; safe for parallel steps.
type facts struct {
	mu    sync.Mutex
	store store.Store // nil while planning: what is set is kept in rec alone, until it is committed
	rec   *store.Cluster
}

// get returns a fact of the cluster; empty where it is not known.
func (f *facts) get(kind factKind) string { return f.of(kind, "") }

// is reports whether a fact is "true".
func (f *facts) is(kind factKind) bool { return f.get(kind) == "true" }

// of returns a fact of one subject.
func (f *facts) of(kind factKind, subject string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rec.Facts[store.Fact{Kind: string(kind), Subject: subject}]
}

// each returns the facts of a kind by subject.
func (f *facts) each(kind factKind) map[string]string {
	all := map[string]string{}
	for fact, value := range f.all() {
		if fact.Kind == string(kind) {
			all[fact.Subject] = value
		}
	}
	return all
}

// all returns a copy.
func (f *facts) all() store.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.rec.Facts)
}

// set remembers a fact of the cluster; an empty value forgets it.
func (f *facts) set(ctx context.Context, kind factKind, value string) error {
	return f.setOf(ctx, kind, "", value)
}

// setOf remembers a fact of one subject; an empty value forgets it.
func (f *facts) setOf(ctx context.Context, kind factKind, subject, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fact := store.Fact{Kind: string(kind), Subject: subject}
	if f.rec.Facts[fact] == value {
		return nil
	}
	next := maps.Clone(f.rec.Facts) // the session compares with the facts that it found
	if next == nil {
		next = store.Facts{}
	}
	if next[fact] = value; value == "" {
		delete(next, fact)
	}
	if f.store != nil {
		if err := f.store.SetFact(ctx, f.rec.ID, fact, value); err != nil {
			return err
		}
	}
	f.rec.Facts = next
	return nil
}

// commit has what is set from now on written through to st, which holds the record already.
func (f *facts) commit(st store.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store = st
}

func (f *facts) bootstrapped() bool { return f.is(factBootstrapped) }

// initialMembers lists the machines that form the static initial etcd cluster.
func (f *facts) initialMembers() map[string]string { return parseInitialCluster(f.get(factInitial)) }
