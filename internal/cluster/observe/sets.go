package observe

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/siteset"
)

// SeenSet is a set of the document as observed.
type SeenSet struct {
	Finding objects.Finding
	Volumes []string          // volumes that an apply would remove, for they left the set
	Defined []string          // definitions with objects of other owners that an apply would remove
	From    []string          // sets that are removed from the document, whose objects it adopts
	Moved   map[string]string // objects that another set of the document no longer has, by identity: that set
	Heirs   map[string]string // objects that another set of the document has by now, by identity: that set
	Adopts  string            // the Secret of the Helm release that an apply adopts; empty: none

	LookedUp, Unrun []string // see chart.Rendered
	Locks           []string // see objects.Locks
	Barred          []string // see objects.Applier.Barred
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
	Unrun   []string // hooks of its removal, which are not run

	Uses, Defines []string // groups of its custom resources, and of its definitions
	Works         bool     // it has workloads
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

// The comparison of the document's sets with the cluster takes a few requests for each object; perObject allows for a slow API.
const (
	setsTime  = time.Minute
	perObject = 200 * time.Millisecond
)

// observeSets compares the document's sets with the cluster. An error concerns the sets alone, so that machines are still repaired.
func (c *Observer) observeSets(ctx context.Context, o *Observed) error {
	if o.Addons == nil { // some inputs of the sets are unknown
		return nil
	}
	client, err := c.Kube(ctx)
	if err == nil {
		err = c.compareSets(ctx, client, o)
	}
	if err != nil {
		o.Sets, o.SurplusSets, o.SetsErr = nil, nil, err
	}
	return ctx.Err()
}

func (c *Observer) compareSets(ctx context.Context, client *kube.Client, o *Observed) error {
	sets := siteset.Of(c.Doc)
	looking, cancel := context.WithTimeout(ctx, setsTime)
	defer cancel()
	left, err := c.leaving(looking, client, sets)
	if err != nil {
		return err
	}
	number := 0
	for _, d := range left {
		number += len(d.going) + len(d.staying)
	}
	o.Sets = map[string]*SeenSet{}
	handed := map[string]bool{}
	var pruned []objects.Ref
	if len(sets) > 0 {
		rendered, err := c.RenderSets(ctx, client) // has a limit of its own
		if err != nil {
			return err
		}
		for _, r := range rendered {
			number += len(r.Objects)
		}
		ctx, cancel := context.WithTimeout(ctx, setsTime+time.Duration(number)*perObject)
		defer cancel()
		placed, err := c.placed(ctx, client, sets, rendered, left)
		if err != nil {
			return err
		}
		seen := make([]*SeenSet, len(sets))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(4)
		for i, s := range sets {
			from := heirloom(placed[s.Key], left, handed)
			g.Go(func() (err error) {
				seen[i], err = c.observeSet(gctx, client, s, rendered[s.Key], placed[s.Key], from)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, s := range sets {
			o.Sets[s.Key] = seen[i]
			pruned = append(pruned, seen[i].Finding.Pruned...)
		}
	}
	ctx, cancel = context.WithTimeout(ctx, setsTime+time.Duration(number)*perObject)
	defer cancel()
	o.SurplusSets, err = c.surplusSets(ctx, client, left, handed, pruned)
	return err
}

// placed returns the objects of the sets in their namespaces, and notes in the sets which objects go from one to another.
func (c *Observer) placed(ctx context.Context, client *kube.Client, sets []*siteset.Set, rendered map[string]chart.Rendered, left []departing) (map[string][]*unstructured.Unstructured, error) {
	out, had := map[string][]*unstructured.Unstructured{}, map[string][]objects.Ref{}
	var err error
	for _, s := range sets {
		for _, d := range left {
			s.From = append(s.From, d.key)
		}
		if out[s.Key], err = client.Place(ctx, rendered[s.Key].Objects, s.Namespace, s.Key, s.From...); err != nil {
			return nil, err
		}
		if had[s.Key], err = client.Inventory(ctx, s.Key); err != nil {
			return nil, err
		}
	}
	moves(sets, out, had)
	return out, nil
}

// moves notes in the sets the objects that left one of them for another.
func moves(sets []*siteset.Set, placed map[string][]*unstructured.Unstructured, had map[string][]objects.Ref) {
	wants := map[string]map[string]bool{}
	for _, s := range sets {
		wants[s.Key], s.Moved, s.Heirs = map[string]bool{}, map[string]string{}, map[string]string{}
		for _, u := range placed[s.Key] {
			wants[s.Key][objects.RefOf(u).Identity()] = true
		}
	}
	for _, former := range sets {
		for _, r := range had[former.Key] {
			id := r.Identity()
			if wants[former.Key][id] {
				continue
			}
			if i := slices.IndexFunc(sets, func(s *siteset.Set) bool { return wants[s.Key][id] }); i >= 0 {
				sets[i].Moved[id], former.Heirs[id] = former.Key, sets[i].Key
			}
		}
	}
}

func (c *Observer) observeSet(ctx context.Context, client *kube.Client, s *siteset.Set, r chart.Rendered, placed []*unstructured.Unstructured, from []string) (*SeenSet, error) {
	seen := &SeenSet{From: from, Moved: s.Moved, Heirs: s.Heirs, LookedUp: r.LookedUp, Unrun: r.Unrun, Locks: objects.Locks(placed)}
	if s.Once {
		var err error
		if seen.Finding, err = client.Applied(ctx, s.Options()); err != nil || seen.Finding.Known {
			return seen, err
		}
	}
	options, err := s.OptionsOf(r)
	if err != nil {
		return nil, err
	}
	if seen.Finding, err = client.Examine(ctx, placed, options); err != nil {
		return nil, err
	}
	if seen.Barred, err = client.Barred(ctx, placed, seen.Finding.Deltas); err != nil {
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

// surplusSets observes departing sets: the objects removed or kept, and the data lost with them. pruned are objects that leave the other sets before.
func (c *Observer) surplusSets(ctx context.Context, client *kube.Client, left []departing, handed map[string]bool, pruned []objects.Ref) ([]SurplusSet, error) {
	inherited := func(r objects.Ref) bool { return handed[r.Identity()] }
	kept := func(r objects.Ref) bool { return !inherited(r) }
	var out []SurplusSet
	for _, d := range left { // definitions go after the objects of all sets
		pruned = append(pruned, slices.DeleteFunc(slices.Clone(d.going), inherited)...)
	}
	for _, d := range left {
		going := slices.DeleteFunc(slices.Clone(d.going), inherited)
		s := SurplusSet{
			Key: d.key, Once: d.once, Objects: names(going), Stays: names(slices.DeleteFunc(slices.Clone(d.staying), inherited)),
			Handed: names(slices.DeleteFunc(slices.Concat(d.going, d.staying), kept)), Works: objects.Works(going),
		}
		s.Uses, s.Defines = objects.Groups(going)
		var err error
		if s.Volumes, s.Defined, err = client.Lost(ctx, going, pruned...); err != nil {
			return nil, err
		}
		if s.Unrun, err = client.Unrun(ctx, d.key); err != nil {
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
