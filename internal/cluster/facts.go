package cluster

import (
	"context"
	"maps"
	"sync"

	"github.com/naupegos/naupegos/internal/store"
)

// The facts that Naupegos remembers of a cluster; none is a secret.
const (
	factBootstrapped = "bootstrapped"   // "true" once the API answered through the endpoint for the first time
	factConverged    = "converged"      // the document that the cluster was last brought to, with defaults
	factHome         = "home"           // where in the cloud the cluster lives (provider.Housed); set before anything is made there
	factInitial      = "etcd-initial"   // the static initial etcd cluster, "name=peerURL,…"; fixed at the first apply
	factEtcdPrefix   = "etcd-join/"     // + machine: the --initial-cluster value with which a later member joined
	factSmoked       = "smoked"         // "true" once the smoke test has passed
	factShared       = "shared-kernel"  // "true" once a machine turned out to be a container, whose kernel is its host's
	factCgroup       = "cgroup-version" // "1" or "2": what the first control-plane machine has, and with it the cluster-wide kubelet configuration
	factRecorded     = "kubeadm-config" // digest of the kubeadm configuration that the cluster has recorded
)

// facts is the record's map, written through to the store; safe for parallel steps.
type facts struct {
	mu    sync.Mutex
	store store.Store // nil while planning: what is set is kept in rec alone, until it is committed
	rec   *store.Cluster
}

func (f *facts) get(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rec.Facts[key]
}

// all returns a copy.
func (f *facts) all() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.rec.Facts)
}

// set remembers value; an empty one forgets the key.
func (f *facts) set(ctx context.Context, key, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rec.Facts[key] == value {
		return nil
	}
	next := maps.Clone(f.rec.Facts)
	if next == nil {
		next = map[string]string{}
	}
	if value == "" {
		delete(next, key)
	} else {
		next[key] = value
	}
	if f.store == nil {
		f.rec.Facts = next
		return nil
	}
	saved := *f.rec
	saved.Facts = next
	if err := f.store.SaveCluster(ctx, &saved); err != nil {
		return err
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

func (f *facts) bootstrapped() bool { return f.get(factBootstrapped) == "true" }

// initialMembers lists the machines that form the static initial etcd cluster.
func (f *facts) initialMembers() map[string]string { return parseInitialCluster(f.get(factInitial)) }
