package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// Edited is a document with a verb's change applied, such as the new size after "one more machine". Repeating the request with it changes nothing more.
type Edited struct {
	Base     string         `json:"base" doc:"Digest of the stored document that it was made for"`
	Document string         `json:"document" doc:"The document with the change (YAML)"`
	Sizes    map[string]int `json:"sizes,omitempty" doc:"Number of machines of pools that scale, by pool"`
	Changed  bool           `json:"changed,omitempty" doc:"The document differs from the stored one"`
}

// Grow says which group gets more machines, and how many.
type Grow struct {
	Pool         string `json:"pool,omitempty" maxLength:"63" doc:"The pool of workers; empty: the only one"`
	ControlPlane bool   `json:"controlPlane,omitempty" doc:"Add control-plane machines"`
	Count        int    `json:"count" minimum:"1" doc:"Number of machines to add"`
}

// Upgrade says which release an upgrade leads or returns to, where it stops, and which pool alone it is for.
type Upgrade struct {
	To         string `json:"to,omitempty" maxLength:"63" doc:"The release of Kubernetes, such as v1.2.3"`
	Finish     bool   `json:"finish,omitempty" doc:"Continue beyond the last hop that can be undone"`
	Back       bool   `json:"back,omitempty" doc:"Return to the release that the machines still run"`
	PauseAfter string `json:"pauseAfter,omitempty" maxLength:"63" doc:"Stop after this machine has restarted"`
	Pool       string `json:"pool,omitempty" maxLength:"63" doc:"Bring this pool of workers, which was left behind, to the release"`
}

func digestOf(document []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(document)) }

// edit returns the given or stored document with the verb's change, or with the agreed change: fail.Conflict if the stored document differs by now.
func (b *Begun) edit(rec *store.Cluster) (*v1alpha1.Cluster, error) {
	from, data := b.Asked.from(), rec.Document
	if b.Asked.Document != "" {
		data = []byte(b.Asked.Document)
	}
	doc, err := validation.Parse(from, data)
	if err != nil {
		return nil, err
	}
	if doc.Metadata.Name != rec.Name {
		return nil, fail.New(fail.Invalid, "%s describes cluster %s, not %s", from, doc.Metadata.Name, rec.Name)
	}
	b.Document = doc
	b.Asked.fullNames(doc)
	switch agreed := b.Asked.Edited; {
	case b.verb.edit == nil && agreed != nil:
		return nil, fail.New(fail.Invalid, "%s changes no document", b.Asked.Verb)
	case b.verb.edit == nil:
		return doc, nil
	case agreed == nil:
		if b.edited, err = b.verb.edit(b, rec, doc, data); err != nil || b.edited == nil {
			return doc, err
		}
		b.edited.Base, b.edited.Changed = digestOf(rec.Document), b.edited.Document != string(data)
	case agreed.Base != digestOf(rec.Document) && agreed.Document != string(rec.Document): // stored already: an earlier process began this request
		return nil, fail.New(fail.Conflict, "the document of cluster %s has changed since the plan was made; nothing was done", rec.Name).Do("run the same command again: it plans again")
	default:
		b.edited = agreed
	}
	if b.Document, err = validation.Parse(from+" with the change", []byte(b.edited.Document)); err != nil {
		return nil, err
	}
	if b.Document.Metadata.Name != rec.Name {
		return nil, fail.New(fail.Invalid, "the document with the change describes cluster %s, not %s", b.Document.Metadata.Name, rec.Name)
	}
	return b.Document, env.CheckChanges(rec, b.Document)
}

// fullNames replaces short names of machines by full ones.
func (a *Asked) fullNames(doc *v1alpha1.Cluster) {
	a.Machine = wanted.MachineNamed(doc, a.Machine)
	if a.Update != nil {
		u := *a.Update
		u.Machine = wanted.MachineNamed(doc, u.Machine)
		a.Update = &u
	}
	var full []string
	for _, name := range a.Machines {
		if name = wanted.MachineNamed(doc, name); !slices.Contains(full, name) { // a machine may be given by both names
			full = append(full, name)
		}
	}
	a.Machines = full
}

// resize sets the sizes of autoscaled pools to those of the change.
func (b *Begun) resize(ctx context.Context) error {
	for _, pool := range slices.Sorted(maps.Keys(b.edited.Sizes)) {
		if err := b.Cluster.Resize(ctx, pool, b.edited.Sizes[pool]); err != nil {
			return err
		}
	}
	return nil
}

func checkGrow(a *Asked) error {
	switch {
	case a.Grow == nil || a.Grow.Count < 1:
		return fail.New(fail.Invalid, "%s: it is not said how many machines there are to be more", a.Verb).Do("give a number from 1 on")
	case a.Grow.ControlPlane && a.Grow.Pool != "":
		return fail.New(fail.Invalid, "%s: a pool and the control plane exclude each other", a.Verb)
	}
	return nil
}

func editGrow(b *Begun, rec *store.Cluster, doc *v1alpha1.Cluster, data []byte) (*Edited, error) {
	grow := b.Asked.Grow
	g, err := groupToGrow(doc, grow.Pool, grow.ControlPlane)
	if err != nil {
		return nil, err
	}
	e := &editing{rec: rec, doc: doc, data: data}
	err = e.resize(g, grow.Count)
	return e.edited(), err
}

func editShrink(b *Begun, rec *store.Cluster, doc *v1alpha1.Cluster, data []byte) (*Edited, error) {
	e := &editing{rec: rec, doc: doc, data: data}
	err := e.shrink(b.Asked.Machines)
	return e.edited(), err
}

// groupToGrow returns the control plane, or else the pool of that name; an empty name selects the only pool.
func groupToGrow(doc *v1alpha1.Cluster, pool string, controlPlane bool) (wanted.Group, error) {
	if controlPlane {
		return wanted.Group{Role: provider.ControlPlane, Replicas: doc.Spec.ControlPlane.Replicas}, nil
	}
	if pool == "" && len(doc.Spec.Workers) != 1 {
		return wanted.Group{}, fail.New(fail.Invalid, "cluster %s has %d pools of workers", doc.Metadata.Name, len(doc.Spec.Workers)).
			Do("name one with --pool: %s", poolNames(doc))
	}
	for _, w := range doc.Spec.Workers {
		if pool == "" || w.Name == pool {
			return wanted.Group{Role: provider.Worker, Pool: w.Name, Replicas: w.Count()}, nil
		}
	}
	return wanted.Group{}, noPool(doc, pool)
}

func noPool(doc *v1alpha1.Cluster, pool string) error {
	return fail.New(fail.NotFound, "cluster %s has no pool %s", doc.Metadata.Name, pool).Do("it has %s", poolNames(doc))
}

// poolNames lists the pools of a document, for messages.
func poolNames(doc *v1alpha1.Cluster) string {
	var names []string
	for _, w := range doc.Spec.Workers {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}

// editing is a document whose groups of machines get other sizes.
type editing struct {
	rec   *store.Cluster
	doc   *v1alpha1.Cluster
	data  []byte
	sizes map[string]int // new sizes of autoscaled pools, by name, which the record keeps
}

func (e *editing) edited() *Edited { return &Edited{Document: string(e.data), Sizes: e.sizes} }

// shrink lowers the sizes of the machines' groups by the number of these machines that the sizes include: see uncounted.
func (e *editing) shrink(machines []string) error {
	less := map[wanted.Group]int{}
	var order []wanted.Group
	for _, m := range machines {
		g, err := wanted.GroupOf(e.doc, m)
		if err != nil {
			return err
		}
		if e.uncounted(g, m) {
			continue
		}
		if less[g] == 0 {
			order = append(order, g)
		}
		less[g]++
	}
	for _, g := range order {
		if err := e.resize(g, -less[g]); err != nil {
			return err
		}
	}
	return nil
}

// uncounted reports whether the document's replica count leaves this machine out: a surge machine, or one already being removed, whose removal
// lowered the count. A given file with a higher count than the stored document still counts a machine that is being removed.
func (e *editing) uncounted(g wanted.Group, machine string) bool {
	switch env.DecisionOf(e.rec, machine) {
	case wanted.Surge:
		return true
	case wanted.Remove:
		have, err := validation.Parse("the cluster's document", e.rec.Document)
		if err != nil {
			return false
		}
		was, err := wanted.GroupOf(have, machine)
		return err == nil && g.Replicas <= was.Replicas
	}
	return false
}

// resize changes the number of machines of one group in the document; for an autoscaled pool it changes the recorded size instead.
func (e *editing) resize(g wanted.Group, by int) (err error) {
	to := g.Replicas + by
	if p := scaling.Find(e.doc, g.Pool); p != nil && g.Role == provider.Worker {
		if e.sizes == nil {
			e.sizes = map[string]int{}
		}
		e.sizes[g.Pool] = cluster.SizeOf(e.rec, *p) + by
		return nil
	}
	switch {
	case e.doc.Spec.Provider.Hosts != nil:
		return fail.New(fail.Refused, "the document itself names the machines of %s", g).
			Do("edit spec.provider.hosts.machines and apply")
	case g.Role == provider.Gateway:
		return fail.New(fail.Refused, "gateways come in pairs").Do("edit spec.endpoint.gateways.replicas and apply, or use naupegos node replace")
	case g.Role == provider.ControlPlane && to != 1 && to != 3 && to != 5:
		return fail.New(fail.Refused, "%d control-plane machines %s %d make %d, and etcd needs an odd number: 1, 3 or 5", g.Replicas, moreOrLess(by), max(by, -by), to).
			Do("%s", oddHint(g, by))
	case to < 0:
		return fail.New(fail.Refused, "%s has %d machines, %d are to go", g, g.Replicas, -by)
	}
	e.data, err = wanted.SetReplicas(e.data, g.Role, g.Pool, to)
	return err
}

func moreOrLess(by int) string {
	if by < 0 {
		return "less"
	}
	return "and"
}

func oddHint(g wanted.Group, by int) string {
	if by > 0 {
		return "add two at a time, up to five: --count 2"
	}
	if g.Replicas == 1 {
		return "a cluster without a control plane is none: naupegos destroy"
	}
	return "remove two together, or put another machine in its place with naupegos node replace"
}

func checkUpgrade(a *Asked) error {
	if a.Upgrade == nil {
		return (&Upgrade{}).Check()
	}
	return a.Upgrade.Check()
}

// Check refuses options that exclude each other, and a request without any of Back, Pool, To and Finish.
func (u *Upgrade) Check() error {
	switch {
	case u.Back && (u.To != "" || u.Finish):
		return fail.New(fail.Invalid, "--back excludes --to and --finish")
	case u.Pool != "" && (u.Back || u.Finish):
		return fail.New(fail.Invalid, "--pool excludes --back and --finish, which apply to the whole cluster")
	case u.Back || u.Pool != "" || u.To != "" || u.Finish:
		return nil
	}
	return fail.New(fail.Invalid, "no release is given").Do("--to VERSION begins an upgrade, --finish ends one, --back takes it back; naupegos bundle list shows what is here")
}

// editRelease sets the requested release: of one pool (Pool), else of the cluster. Back sets the former release.
func editRelease(b *Begun, rec *store.Cluster, doc *v1alpha1.Cluster, data []byte) (_ *Edited, err error) {
	u := b.Asked.Upgrade
	if u.Pool != "" {
		return editPool(u, rec, doc, data)
	}
	to := u.To
	if u.Back {
		if to, err = staged.ReleaseBefore(rec, doc); err != nil {
			return nil, err
		}
	}
	if to != "" && to != doc.Spec.Kubernetes.Version {
		if data, err = wanted.SetVersion(data, to); err != nil {
			return nil, err
		}
		if _, err = validation.Parse("the document, with --to "+to, data); err != nil {
			return nil, err
		}
	}
	return &Edited{Document: string(data)}, nil
}

// editPool sets the release of a pool, by default to the cluster's.
func editPool(u *Upgrade, rec *store.Cluster, doc *v1alpha1.Cluster, data []byte) (*Edited, error) {
	i := slices.IndexFunc(doc.Spec.Workers, func(p v1alpha1.Pool) bool { return p.Name == u.Pool })
	if i < 0 {
		return nil, noPool(doc, u.Pool)
	}
	staged.StayWith(rec, doc)
	pool, to := doc.Spec.Workers[i], cmp.Or(u.To, doc.Spec.Kubernetes.Version)
	if pool.Version == to || pool.Version == "" && to == doc.Spec.Kubernetes.Version {
		return &Edited{Document: string(data)}, nil
	}
	data, err := wanted.SetPoolVersion(data, u.Pool, to)
	if err != nil {
		return nil, err
	}
	_, err = validation.Parse("the document, with --to "+to, data)
	return &Edited{Document: string(data)}, err
}

func planUpgrade(ctx context.Context, b *Begun) error {
	u := b.Asked.Upgrade
	b.Cluster.PauseAfter(u.PauseAfter)
	if u.Finish {
		if err := b.Cluster.Finish(ctx); err != nil {
			return err
		}
	}
	return b.planApply(ctx)
}
