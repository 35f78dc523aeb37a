// Package memory is what Naupegos remembers of a cluster: facts that cannot be observed, and secrets. While a plan is made both are kept
// in memory alone; once it is agreed to they are written through to the store.
//
// It may know the store, and of machines only how a provider describes them.
package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/store"
)

// Kind says what a fact is about.
type Kind string

// The facts that Naupegos remembers of a cluster; none is a secret.
const (
	Bootstrapped  Kind = "bootstrapped"   // "true" once the API answered through the endpoint for the first time
	Bundle        Kind = "bundle"         // title and ID of the bundle that the cluster was last brought to, parted by a space
	Converged     Kind = "converged"      // the document that the cluster was last brought to, with defaults
	DocumentFile  Kind = "document-file"  // the file that the document was last applied from, as the user named it
	Home          Kind = "home"           // where in the cloud the cluster lives (provider.Housed); set before anything is made there
	EtcdInitial   Kind = "etcd-initial"   // the static initial etcd cluster, "name=peerURL,…"; fixed at the first apply
	Smoked        Kind = "smoked"         // "true" once the smoke test has passed
	CloudSmoked   Kind = "cloud-smoked"   // "true" once the cloud's smoke test has passed
	SharedKernel  Kind = "shared-kernel"  // "true" once a machine turned out to be a container, whose kernel is its host's
	CgroupVersion Kind = "cgroup-version" // "1" or "2": what the first control-plane machine has, and with it the cluster-wide kubelet configuration
	Authenticated Kind = "authentication" // digest of the AuthenticationConfiguration that all API servers have loaded; empty: one without issuers
	Authorized    Kind = "authorization"  // digest of the AuthorizationConfiguration that all API servers have loaded; empty: none
	Recorded      Kind = "kubeadm-config" // digest of the kubeadm configuration that the cluster has recorded
	Restored      Kind = store.FactRestored
	Releasing     Kind = "releasing" // "true" from before a release begins: what only Naupegos uses goes from machines
	Importing     Kind = "importing" // "true" from before hosts of a cluster that somebody else has made are taken over until all are
	APINames      Kind = "api-names" // further names of API servers, parted by commas, by which machines of an imported cluster reach them before their first apply
	Resetting     Kind = "resetting" // "true" from before a reset of all machines begins until it has come to its end

	Releases    Kind = "releases"       // what the parts of the cluster are told to run (hops.Releases)
	ReleasesRun Kind = "releases-run"   // what all of them run
	Begun       Kind = "releases-begun" // the hop that machines have begun to make and from which only a backup leads back, as Releases
	SoakSince   Kind = "soak-since"     // since when an upgrade waits where there is a way back, in RFC 3339
	Finish      Kind = "upgrade-finish" // the release to which an upgrade is to go to its end; empty: it stays where there is a way back

	Rotation     Kind = "rotation"      // the rotation of authorities and keys, with the phase that everything is told to be in (rotation.Rotation)
	RotationRun  Kind = "rotation-run"  // the same, with the phase that everything is in
	RotationHold Kind = "rotation-hold" // "true": the former keys stay trusted until somebody says otherwise

	Restoring Kind = "restoring" // what etcd is started from again, until the cluster is as its document says: a backup, as JSON

	BackupLaid Kind = "backup-laid" // digest of what was laid in etcd for backups on schedule
	BackupFrom Kind = "backup-from" // since when machines make backups on schedule

	Recovering Kind = "recovering" // how etcd was last recovered from the survivor of a lost quorum, or is, as JSON

	Encryption      Kind = "encryption"         // providers that API servers are told to read Secrets by, parted by commas; the first writes
	EncryptionRun   Kind = "encryption-run"     // the same of those that all API servers run with
	EncryptionWrote Kind = "encryption-written" // the provider that all Secrets were written by
	EncryptionKey   Kind = "encryption-key"     // name of the key to encrypt Secrets by; empty means the first
)

// The facts of one subject each.
const (
	EtcdJoin    Kind = "etcd-join"         // of a machine: the --initial-cluster value with which a later member joined
	PoolSize    Kind = "pool-size"         // of a pool that scales: how many machines it has
	PoolFormer  Kind = "pool-former"       // of a pool that scales: how many machines it had before a change that is not done yet
	PoolShape   Kind = "pool-shape"        // of a pool that scales: what its nodes were found to have, as JSON
	Host        Kind = "host"              // of a machine: a host given by address that Naupegos has worked on, as JSON
	ConsoleKeys Kind = "console-host-keys" // of a server's ID: SSH host keys that were read from its console, one a line
	TrustedKey  Kind = "trusted-host-key"  // of a machine's ID or name: the SSH host key that was trusted at first use, where the user allowed that
	// Of a machine: its Decision. It is remembered before anything is done and forgotten once the machine is gone, so that apply goes on
	// where the verb was interrupted.
	Decision         Kind = "decision"
	Generation       Kind = "key-generation"    // of an authority or key (pki.Rotated): which one it is; the first where it is not known
	AddonWorks       Kind = "addon-works"       // of an addon: "true" once it was seen to work as it is installed now
	Unclean          Kind = "unclean"           // of a machine: "true" from when it is to be reset until it is clean
	Repair           Kind = "repair"            // of a machine: what was tried to heal it (upkeep.Ladder)
	Rebooting        Kind = "rebooting"         // of a machine that is to be rebooted for naupegos update, until it is well again: the boot ID that it is to get away from
	Released         Kind = "released"          // of a machine: "true" once its agent has forgotten it
	WireGuardGateway Kind = "wireguard-gateway" // of a machine: its address
	WireGuardPeer    Kind = "wireguard-peer"    // of a peer: its address
)

// Facts are the record's, written through to the store; safe for parallel steps.
type Facts struct {
	mu    sync.Mutex
	store store.Store // nil while planning: what is set is kept in rec alone, until it is committed
	rec   *store.Cluster
}

// NewFacts returns the facts of a record. Without a store what is set is kept in the record alone, until Commit.
func NewFacts(rec *store.Cluster, st store.Store) *Facts { return &Facts{store: st, rec: rec} }

// Get returns a fact of the cluster; empty where it is not known.
func (f *Facts) Get(kind Kind) string { return f.Of(kind, "") }

// Is reports whether a fact is "true".
func (f *Facts) Is(kind Kind) bool { return f.Get(kind) == "true" }

// Of returns a fact of one subject.
func (f *Facts) Of(kind Kind, subject string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rec.Facts[store.Fact{Kind: string(kind), Subject: subject}]
}

// Each returns the facts of a kind by subject.
func (f *Facts) Each(kind Kind) map[string]string {
	all := map[string]string{}
	for fact, value := range f.All() {
		if fact.Kind == string(kind) {
			all[fact.Subject] = value
		}
	}
	return all
}

// All returns a copy.
func (f *Facts) All() store.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.rec.Facts)
}

// Set remembers a fact of the cluster; an empty value forgets it.
func (f *Facts) Set(ctx context.Context, kind Kind, value string) error {
	return f.SetOf(ctx, kind, "", value)
}

// SetOf remembers a fact of one subject; an empty value forgets it.
func (f *Facts) SetOf(ctx context.Context, kind Kind, subject, value string) error {
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

// Commit has what is set from now on written through to st, which holds the record already.
func (f *Facts) Commit(st store.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store = st
}

// Bootstrapped reports whether the API has ever answered through the endpoint.
func (f *Facts) Bootstrapped() bool { return f.Is(Bootstrapped) }

// ofMachines lists what is known of machines and where they are, which another cluster that is built on them needs as well.
func ofMachines() []Kind {
	return []Kind{Home, SharedKernel, CgroupVersion, Host, ConsoleKeys, TrustedKey, Unclean, WireGuardGateway, WireGuardPeer}
}

// ofKeys lists what is known of a cluster's keys, which is still true when the same cluster is built on other machines.
func ofKeys() []Kind {
	return []Kind{
		Encryption, EncryptionRun, EncryptionWrote, EncryptionKey, Generation, Rotation, RotationRun, RotationHold, WireGuardGateway, WireGuardPeer,
	}
}

// OfKeys returns those of a cluster's facts that are still true when the same cluster, with its keys, is built on other machines.
func OfKeys(all store.Facts) store.Facts {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(f store.Fact, _ string) bool { return !slices.Contains(ofKeys(), Kind(f.Kind)) })
	return out
}

// StartOver forgets everything but what is known of machines, and the generations of keys that stay, as of a cluster that was never built. That a reset was
// begun goes last.
func (f *Facts) StartOver(ctx context.Context, keys ...string) error {
	for fact := range f.All() {
		kind := Kind(fact.Kind)
		if kind == Resetting || slices.Contains(ofMachines(), kind) || kind == Generation && slices.Contains(keys, fact.Subject) {
			continue
		}
		if err := f.SetOf(ctx, Kind(fact.Kind), fact.Subject, ""); err != nil {
			return err
		}
	}
	return f.Set(ctx, Resetting, "")
}

// APIServerNames returns the names that certificates of API servers keep for machines of an imported cluster, and more unless it is empty.
func (f *Facts) APIServerNames(more string) (names []string) {
	for _, name := range append(strings.Split(f.Get(APINames), ","), more) {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
