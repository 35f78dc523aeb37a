package adopt

import (
	"context"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/store"
)

// Draft is the starting point of a cluster's adoption.
type Draft struct {
	Document []byte // YAML: the cluster's present state
	Gaps     []Gap

	doc        *v1alpha1.Cluster // parsed, with defaults; nil if the document is invalid
	taken      pki.Taken
	encryption []string
	apiNames   []string          // local names and addresses of machines' own load balancers for the API servers
	members    map[string]member // by machine
}

// member is how a member of etcd was started.
type member struct{ cluster, state string }

// existing is the state of a member that joined an existing cluster.
const existing = "existing"

// Options are the inputs of a draft besides what was found.
type Options struct {
	Name    string // of the cluster
	ID      string // present or future ID in the store
	KeyFile string // the private key that logs in to hosts
	// Credential is the name of the credential that holds the key, instead of KeyFile.
	Credential string
	User       string
	Port       int
}

// New returns the document that describes a cluster, and the cluster's differences from one made by naupegos.
func New(o Options, f *Found) (*Draft, error) {
	d := &drafting{Draft: &Draft{members: map[string]member{}}, o: o, f: f, moved: map[string][]string{}}
	if d.foreign() {
		d.Gaps = d.gaps
		return d.Draft, nil
	}
	d.release()
	d.hosts()
	d.kubeadm()
	d.etcd()
	d.authorities()
	d.apiServers()
	d.runtimes()
	d.units()
	d.dns()
	d.nodes()
	if err := d.finish(); err != nil {
		return nil, err
	}
	if d.doc != nil {
		all, err := d.comparisons()
		if err == nil {
			err = d.translate(all)
		}
		if err == nil {
			err = d.compare(all)
		}
		if err != nil {
			return nil, err
		}
	}
	d.lostNames()
	d.merge()
	if d.doc != nil {
		d.always()
	}
	d.Gaps = d.gaps
	order := []Kind{Stays, Changes, Lost, Blocks}
	slices.SortStableFunc(d.Gaps, func(a, b Gap) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	return d.Draft, nil
}

// Of returns the gaps of a kind.
func (d *Draft) Of(k Kind) (out []Gap) {
	for _, g := range d.Gaps {
		if g.Kind == k {
			out = append(out, g)
		}
	}
	return out
}

// Cluster returns the document, with defaults. fail.Refused where something blocks.
func (d *Draft) Cluster() (*v1alpha1.Cluster, error) {
	blocks := d.Of(Blocks)
	if len(blocks) == 0 {
		return d.doc, nil
	}
	err := fail.New(fail.Refused, "the cluster can't be taken over: %s", blocks[0].What).At(blocks[0].Where)
	if len(blocks) > 1 {
		err = fail.New(fail.Refused, "the cluster can't be taken over: %s; without --adopt, import names %d more obstacles", blocks[0].What, len(blocks)-1).At(blocks[0].Where)
	}
	if do := blocks[0].Do; do != "" {
		err = err.Do("%s", do)
	}
	return nil, err
}

// Secrets returns the cluster's authorities and keys in the store's form.
func (d *Draft) Secrets() (map[string][]byte, error) { return d.taken.Secrets() }

// Facts returns what can't be observed of the cluster later. The fact that the API has answered is not included: it is set after everything else.
func (d *Draft) Facts(ctx context.Context) (store.Facts, error) {
	rec := &store.Cluster{}
	facts := memory.NewFacts(rec, nil)
	now := hops.Of(d.doc.Spec.Kubernetes.Version).String()
	set := map[memory.Kind]string{memory.Importing: "true", memory.Releases: now, memory.ReleasesRun: now}
	for _, name := range slices.Sorted(maps.Keys(d.members)) {
		m := d.members[name]
		if m.state != existing || set[memory.EtcdInitial] == "" {
			set[memory.EtcdInitial] = m.cluster
		}
		if m.state == existing {
			if err := facts.SetOf(ctx, memory.EtcdJoin, name, m.cluster); err != nil {
				return nil, err
			}
		}
	}
	if i := slices.IndexFunc(d.encryption, func(p string) bool { return p != layout.Plaintext }); i >= 0 {
		list := join(d.encryption)
		set[memory.Encryption], set[memory.EncryptionRun], set[memory.EncryptionKey] = list, list, d.encryption[i]
	}
	if len(d.apiNames) > 0 {
		set[memory.APINames] = join(d.apiNames)
	}
	for kind, value := range set {
		if err := facts.Set(ctx, kind, value); err != nil {
			return nil, err
		}
	}
	return rec.Facts, nil
}
