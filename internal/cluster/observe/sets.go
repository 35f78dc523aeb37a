package observe

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/siteset"
)

// SeenSet is a set of the document as observed.
type SeenSet struct {
	Finding objects.Finding
	Volumes []string // volumes that an apply would remove, for they left the set
	Defined []string // definitions with objects of other owners that an apply would remove
	From    []string // sets that are removed from the document, whose objects it adopts
	Adopts  string   // the Secret of the Helm release that an apply adopts; empty: none
}

// Clean reports whether nothing is to be done.
func (s *SeenSet) Clean() bool { return s != nil && s.Finding.Clean() }

// SurplusSet is a set that the document no longer lists.
type SurplusSet struct {
	Key     string
	Objects []string
	Stays   []string // objects that their set keeps
	Handed  []string // objects that sets of the document adopt
	Volumes []string // volumes that would be lost with it
	Defined []string // definitions with objects of other owners
	Once    bool     // it was applied a single time: its objects stay
}

// SetCluster describes the cluster to charts, as far as it answers.
func (c *Observer) SetCluster(ctx context.Context, client *kube.Client) (siteset.Cluster, error) {
	out := siteset.Cluster{Kubernetes: c.Doc.Spec.Kubernetes.Version}
	if client == nil {
		return out, nil
	}
	var err error
	out.APIs, err = client.APIs(ctx)
	return out, err
}

// CheckSets renders the document's sets without the cluster, and reports their errors.
func (c *Observer) CheckSets(ctx context.Context) error {
	described, err := c.SetCluster(ctx, nil)
	if err != nil {
		return err
	}
	_, err = c.allSets(ctx, described)
	return err
}

// RenderSets renders all sets for the current cluster.
func (c *Observer) RenderSets(ctx context.Context, client *kube.Client) (map[string]chart.Rendered, error) {
	described, err := c.SetCluster(ctx, client)
	if err != nil {
		return nil, err
	}
	return c.allSets(ctx, described)
}

func (c *Observer) allSets(ctx context.Context, described siteset.Cluster) (map[string]chart.Rendered, error) {
	if c.Sets != nil {
		return c.Sets(ctx, c.Doc, described)
	}
	return siteset.All(c.Doc, described)
}

// observeSets compares the document's sets with the cluster. The API must have answered.
func (c *Observer) observeSets(ctx context.Context, client *kube.Client, o *Observed) error {
	if o.Addons == nil { // some inputs of the sets are unknown
		return nil
	}
	sets := siteset.Of(c.Doc)
	o.Sets = map[string]*SeenSet{}
	left, err := c.leaving(ctx, client, sets)
	if err != nil {
		o.APIErr = err
		return nil
	}
	handed := map[string]bool{}
	if len(sets) > 0 {
		rendered, err := c.RenderSets(ctx, client)
		switch fail.KindOf(err) {
		case fail.Unreachable, fail.NotReady:
			o.APIErr = err
			return nil
		}
		if err != nil {
			return err
		}
		for _, s := range sets {
			seen, err := c.observeSet(ctx, client, s, rendered[s.Key], left, handed)
			if err != nil {
				o.APIErr = err
				return nil
			}
			o.Sets[s.Key] = seen
		}
	}
	surplus, err := c.surplusSets(ctx, client, left, handed)
	if err != nil {
		o.APIErr = err
	}
	o.SurplusSets = surplus
	return nil
}

func (c *Observer) observeSet(ctx context.Context, client *kube.Client, s *siteset.Set, r chart.Rendered, left []departing, handed map[string]bool) (*SeenSet, error) {
	seen := &SeenSet{}
	for _, d := range left {
		s.From = append(s.From, d.key)
	}
	if s.Once {
		var err error
		if seen.Finding, err = client.Applied(ctx, s.Options()); err != nil || seen.Finding.Known {
			return seen, err
		}
	}
	placed, err := client.Place(ctx, r.Objects, s.Namespace, s.Key, s.From...)
	if err != nil {
		return nil, err
	}
	seen.From = heirloom(placed, left, handed)
	if seen.Finding, err = client.Examine(ctx, placed, s.Options()); err != nil {
		return nil, err
	}
	if s.Helm != "" && !seen.Finding.Known {
		if seen.Adopts, err = client.HelmRelease(ctx, s.Namespace, s.Release); err != nil {
			return nil, err
		}
	}
	seen.Volumes, seen.Defined, err = client.Lost(ctx, seen.Finding.Pruned)
	return seen, err
}

// departing is a set that the cluster has and the document no longer lists.
type departing struct {
	key            string
	going, staying []objects.Ref
	once           bool
}

func (c *Observer) leaving(ctx context.Context, client *kube.Client, sets []*siteset.Set) ([]departing, error) {
	installed, err := client.Addons(ctx)
	if err != nil {
		return nil, err
	}
	var out []departing
	for _, key := range installed {
		if !siteset.IsSet(key) || slices.ContainsFunc(sets, func(s *siteset.Set) bool { return s.Key == key }) {
			continue
		}
		d := departing{key: key}
		if d.going, d.staying, d.once, err = client.Departing(ctx, key); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// heirloom names the departing sets that own objects of a set, and adds these objects to handed, by identity.
func heirloom(placed []*unstructured.Unstructured, left []departing, handed map[string]bool) []string {
	wanted := map[string]bool{}
	for _, u := range placed {
		wanted[objects.RefOf(u).Identity()] = true
	}
	var from []string
	for _, d := range left {
		for _, r := range slices.Concat(d.going, d.staying) {
			if id := r.Identity(); wanted[id] {
				handed[id] = true
				if !slices.Contains(from, d.key) {
					from = append(from, d.key)
				}
			}
		}
	}
	return from
}

// surplusSets observes departing sets: the objects that go or stay, and the data lost with them.
func (c *Observer) surplusSets(ctx context.Context, client *kube.Client, left []departing, handed map[string]bool) ([]SurplusSet, error) {
	inherited := func(r objects.Ref) bool { return handed[r.Identity()] }
	kept := func(r objects.Ref) bool { return !inherited(r) }
	var out []SurplusSet
	for _, d := range left {
		going := slices.DeleteFunc(slices.Clone(d.going), inherited)
		s := SurplusSet{
			Key: d.key, Once: d.once, Objects: names(going), Stays: names(slices.DeleteFunc(slices.Clone(d.staying), inherited)),
			Handed: names(slices.DeleteFunc(slices.Concat(d.going, d.staying), kept)),
		}
		var err error
		if s.Volumes, s.Defined, err = client.Lost(ctx, going); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func names(all []objects.Ref) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.String())
	}
	return out
}
