// Package memory holds what Naupegos remembers about a cluster: facts that can't be observed, and secrets. During planning, changes of both stay
// in memory; after the agreement, they are written through to the store.
//
// It may import the store, and knows machines only as providers describe them.
package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/store"
)

// Kind is the subject of a fact.
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
	SharedKernel  Kind = "shared-kernel"  // "true" once a machine turned out to be a container, which shares its host's kernel
	CgroupVersion Kind = "cgroup-version" // "1" or "2": cgroup version of the first control-plane machine, and of the cluster-wide kubelet configuration
	Authenticated Kind = "authentication" // digest of the AuthenticationConfiguration that all API servers have loaded; empty: one without issuers
	Authorized    Kind = "authorization"  // digest of the AuthorizationConfiguration that all API servers have loaded; empty: none
	Recorded      Kind = "kubeadm-config" // digest of the kubeadm configuration that the cluster has recorded
	Restored      Kind = store.FactRestored
	Releasing     Kind = "releasing" // "true" from before a release begins: machines lose what only Naupegos uses
	Importing     Kind = "importing" // "true" while hosts of a cluster that another tool made are being adopted
	APINames      Kind = "api-names" // API servers' further names, comma-separated, which an imported cluster's machines use before their first apply
	Resetting     Kind = "resetting" // "true" from before a reset of all machines begins until it is complete

	Releases    Kind = "releases"       // the releases that the parts of the cluster are configured for (hops.Releases)
	ReleasesRun Kind = "releases-run"   // the releases that all of them run
	Begun       Kind = "releases-begun" // the hop that machines have begun and that only a backup can revert, as Releases
	SoakSince   Kind = "soak-since"     // since when an upgrade waits while it can be reverted, in RFC 3339
	Finish      Kind = "upgrade-finish" // the release to which an upgrade must be completed; empty: it waits while it can be reverted

	Rotation     Kind = "rotation"      // the rotation of authorities and keys, with the phase that everything is configured for (rotation.Rotation)
	RotationRun  Kind = "rotation-run"  // the same, with the phase that everything is in
	RotationHold Kind = "rotation-hold" // "true": the former keys stay trusted until a user ends that

	Restoring Kind = "restoring" // the backup that etcd is restored from, as JSON, until the cluster conforms to its document

	BackupLaid Kind = "backup-laid" // digest of the inputs of scheduled backups in etcd
	BackupFrom Kind = "backup-from" // since when machines make backups on schedule

	Recovering Kind = "recovering" // how etcd was last recovered from the survivor of a lost quorum, or is, as JSON

	Encryption      Kind = "encryption"         // providers with which API servers are configured to read Secrets, separated by commas; the first writes
	EncryptionRun   Kind = "encryption-run"     // the providers that all API servers run with
	EncryptionWrote Kind = "encryption-written" // the provider that all Secrets were written by
	EncryptionKey   Kind = "encryption-key"     // name of the key to encrypt Secrets by; empty means the first
)

// The facts of one subject each.
const (
	EtcdJoin    Kind = "etcd-join"         // of a machine: the --initial-cluster value with which a later member joined
	PoolSize    Kind = "pool-size"         // of a pool that scales: how many machines it has
	PoolFormer  Kind = "pool-former"       // of a pool that scales: how many machines it had before a change that is not done yet
	PoolShape   Kind = "pool-shape"        // of a scaling pool: the observed shape of its nodes, as JSON
	Host        Kind = "host"              // of a machine: a host given by address that Naupegos has worked on, as JSON
	ConsoleKeys Kind = "console-host-keys" // of a server's ID: SSH host keys that were read from its console, one a line
	TrustedKey  Kind = "trusted-host-key"  // of a machine's ID or name: the SSH host key that was trusted on first use, if the user allows that
	// Of a machine: its Decision. It is recorded before anything is done and deleted once the machine is removed, so that apply continues an
	// interrupted verb.
	Decision         Kind = "decision"
	Generation       Kind = "key-generation"    // of an authority or key (pki.Rotated): its generation; the first if unknown
	AddonWorks       Kind = "addon-works"       // of an addon: "true" once it was proven to work as installed now
	Unclean          Kind = "unclean"           // of a machine: "true" from when it is to be reset until it is clean
	Repair           Kind = "repair"            // of a machine: the attempts to repair it (upkeep.Ladder)
	Rebooting        Kind = "rebooting"         // of a machine that naupegos update reboots, until it is healthy again: its boot ID before the reboot
	Released         Kind = "released"          // of a machine: "true" once its agent has forgotten it
	WireGuardGateway Kind = "wireguard-gateway" // of a machine: its address
	WireGuardPeer    Kind = "wireguard-peer"    // of a peer: its address
)

// Facts are the record's, written through to the store; safe for parallel steps.
type Facts struct {
	mu    sync.Mutex
	store store.Store // nil while planning: changes stay in rec until Commit
	rec   *store.Cluster
}

// NewFacts returns the facts of a record. Without a store, changes stay in the record until Commit.
func NewFacts(rec *store.Cluster, st store.Store) *Facts { return &Facts{store: st, rec: rec} }

// Get returns a fact of the cluster, or "" if it is unknown.
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

// Commit makes all later changes go to st, which contains the record already.
func (f *Facts) Commit(st store.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store = st
}

// Bootstrapped reports whether the API has ever answered through the endpoint.
func (f *Facts) Bootstrapped() bool { return f.Is(Bootstrapped) }

// ofMachines lists the facts about machines and their location, which a new cluster on the same machines needs, too.
func ofMachines() []Kind {
	return []Kind{Home, SharedKernel, CgroupVersion, Host, ConsoleKeys, TrustedKey, Unclean, WireGuardGateway, WireGuardPeer}
}

// ofKeys lists the facts about a cluster's keys, which stay valid if the cluster is rebuilt on other machines.
func ofKeys() []Kind {
	return []Kind{
		Encryption, EncryptionRun, EncryptionWrote, EncryptionKey, Generation, Rotation, RotationRun, RotationHold, WireGuardGateway, WireGuardPeer,
	}
}

// OfKeys returns the facts that stay valid if the same cluster, with its keys, is rebuilt on other machines.
func OfKeys(all store.Facts) store.Facts {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(f store.Fact, _ string) bool { return !slices.Contains(ofKeys(), Kind(f.Kind)) })
	return out
}

// StartOver deletes all facts except those about machines and the generations of the given keys, as if the cluster had never been built. It
// deletes the fact that a reset was begun last.
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
