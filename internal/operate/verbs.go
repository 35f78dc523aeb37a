package operate

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// The verbs that servers carry out on their own, and others that code refers to.
const (
	Apply     = "apply"
	Autoscale = "autoscale" // requested only by an autoscaler: see Autoscaling
	Destroy   = "destroy"
	Rehearse  = "backup rehearse"
	Renew     = "renew"
	Repair    = "repair"

	Release = "release"

	importCluster = "import"
	recoverEtcd   = "etcd recover"
	restoreBackup = "backup restore"
)

// Bundle says which bundle a verb needs.
type Bundle int

// The needs of a bundle.
const (
	NoBundle     Bundle = iota
	BundleIfHere        // an available bundle; the verb also works without one
	BundleMade          // a bundle that is made before execution if it is not available
)

// verb describes a verb that can be requested.
type verb struct {
	takes     string // the options of Asked, besides verb, cluster and edited
	bundle    Bundle
	plain     bool // does exactly what its name says: its plan is neither shown nor asked for
	converges bool // the first plan is that of apply, or one that apply continues once it has begun
	goesOn    bool // a repeated request continues the verb; if false, apply continues it
	commits   bool // the request's document is stored after the agreement
	atOnce    bool // the session stores facts and secrets as soon as it makes them, not at its commit
	beside    bool // changes neither the cluster nor its record: runs without the lease, so that other verbs need not wait, and opens bundles itself
	final     bool // gives a cluster or its data up: needs a fresh sign-in
	reaches   bool // planning already reads a backup or a foreign host, not only the cluster in the store: a plan needs the role operate
	check     func(a *Asked) error
	// open opens the session in a way specific to the verb, and closes the store if that fails; nil: on the cluster, which the store knows.
	open func(ctx context.Context, st store.Store, b *Begun, o Options) error
	// edit changes the document; if it is nil or returns nil, the document stays. It is called before the search for a bundle, and may refuse requests
	// that do not fit the cluster.
	edit func(b *Begun, rec *store.Cluster, doc *v1alpha1.Cluster, data []byte) (*Edited, error)
	plan func(ctx context.Context, b *Begun) error
}

// verbs defines every verb that can be requested, by name. A test compares the API's description with it.
var verbs = map[string]*verb{
	Apply: {takes: "document from clusterID only newBundle", bundle: BundleMade, converges: true, goesOn: true, commits: true,
		plan: func(ctx context.Context, b *Begun) error {
			b.Cluster.Only(b.Asked.Only)
			return b.planApply(ctx)
		}},
	Destroy:         {takes: "keepVolumes", final: true, atOnce: true, goesOn: true, plan: planDestroy},
	"reset":         {takes: "machine keepVolumes", final: true, atOnce: true, goesOn: true, check: checkReset, plan: planReset},
	"upgrade":       {takes: "document from upgrade", bundle: BundleMade, converges: true, goesOn: true, commits: true, check: checkUpgrade, edit: editRelease, plan: planUpgrade},
	"node add":      {takes: "document from grow", bundle: BundleMade, converges: true, commits: true, check: checkGrow, edit: editGrow, plan: planConverge},
	"node remove":   {takes: "document from machines", bundle: BundleMade, converges: true, commits: true, check: needMachines, edit: editShrink, plan: planRemove},
	"node replace":  {takes: "machines", bundle: BundleMade, converges: true, commits: true, check: needMachines, plan: planReplace},
	"node cordon":   {takes: "machines", plain: true, atOnce: true, check: needMachines, plan: planCordon},
	"node uncordon": {takes: "machines", plain: true, atOnce: true, check: needMachines, plan: planCordon},
	"node drain":    {takes: "machines drain", plain: true, atOnce: true, check: needMachines, plan: planDrain},
	"machine start": {takes: "machines", bundle: BundleIfHere, atOnce: true, plan: planPower}, "machine stop": {takes: "machines", bundle: BundleIfHere, atOnce: true, plan: planPower},
	"machine kill": {takes: "machines", bundle: BundleIfHere, atOnce: true, plan: planPower}, "machine reboot": {takes: "machines", bundle: BundleIfHere, atOnce: true, plan: planPower},
	Renew:           {bundle: BundleMade, converges: true, commits: true, plan: planRenew},
	Repair:          {takes: "machine", bundle: BundleMade, plan: planRepair},
	"update":        {takes: "update", commits: true, goesOn: true, check: checkUpdate, plan: planUpdate},
	"certs rotate":  {takes: "rotate", bundle: BundleMade, converges: true, commits: true, check: checkRotate, edit: lookRotate, plan: planRotate},
	recoverEtcd:     {takes: "machine", final: true, bundle: BundleMade, commits: true, check: checkRecover, plan: planRecover},
	"backup create": {plain: true, atOnce: true, plan: planBackup},
	"backup prune":  {atOnce: true, goesOn: true, plan: planPrune},
	Rehearse:        {takes: "backup seconds", bundle: BundleMade, plain: true, goesOn: true, beside: true, plan: planRehearse},
	restoreBackup:   {takes: "backup document from clusterID restore seconds", final: true, bundle: BundleMade, reaches: true, check: checkRestore, open: openRestore, plan: planRestore},
	importCluster:   {takes: "import clusterID", reaches: true, check: checkImport, open: openImport, plan: planImport},
	Release:         {takes: "taken", final: true, bundle: BundleMade, commits: true, goesOn: true, plan: planRelease},
	"test":          {takes: "seconds", bundle: BundleIfHere, plain: true, plan: planTest},
}

// Verbs returns the sorted names of the verbs that can be requested.
func Verbs() []string { return slices.Sorted(maps.Keys(verbs)) }

func verbNames() string { return strings.Join(Verbs(), ", ") }

// Plain reports whether the verb does exactly what its name says: its plan is neither shown nor asked for.
func (a *Asked) Plain() bool { v := verbs[a.Verb]; return v != nil && v.plain }

// Final reports whether the verb gives a cluster or its data up.
func (a *Asked) Final() bool { v := verbs[a.Verb]; return v != nil && v.final }

// Converges reports whether the verb's first plan is that of apply, or one that apply continues.
func (a *Asked) Converges() bool { v := verbs[a.Verb]; return v != nil && v.converges }

// Bundle says which bundle the verb needs.
func (a *Asked) Bundle() Bundle {
	v := verbs[a.Verb]
	switch {
	case a.Verb == Autoscale:
		return BundleMade
	case v == nil:
		return NoBundle
	}
	return v.bundle
}

// Reaches reports whether planning the verb already reads a backup or a foreign host, not only the cluster in the store.
func (a *Asked) Reaches() bool { v := verbs[a.Verb]; return v != nil && v.reaches }

// Makes reports whether the verb may start on a cluster that the store does not know.
func (a *Asked) Makes() bool {
	v := verbs[a.Verb]
	return a.Verb == Apply || v != nil && v.open != nil
}

// Of returns the name of the cluster whose backup becomes another cluster; empty if the request names none.
func (a *Asked) Of() string {
	if a.Restore == nil {
		return ""
	}
	return a.Restore.Of
}

// ReadOnly reports whether a session that carries the verb out stores nothing before the agreement.
func (a *Asked) ReadOnly() bool {
	v := verbs[a.Verb]
	return v == nil || !v.atOnce && (a.Rotate == nil || !a.Rotate.CloudCredential)
}

// LooksFirst reports whether the verb usually finds nothing to do, so that a first look without the cluster's lease pays off.
func (a *Asked) LooksFirst() bool { return a.Verb == Renew || a.Verb == Repair }

// has reports whether a verb takes an option of Asked, by its name in JSON.
func (v *verb) has(option string) bool {
	return slices.Contains(strings.Fields("verb cluster edited "+v.takes), option)
}

func needMachines(a *Asked) error {
	if len(a.Machines) == 0 {
		return fail.New(fail.Invalid, "%s: no machine is named", a.Verb).Do("naupegos status %s names the machines", a.Cluster)
	}
	return nil
}

func planConverge(ctx context.Context, b *Begun) error { return b.planApply(ctx) }

func planDestroy(ctx context.Context, b *Begun) error {
	p, err := b.Cluster.PlanDestroy(ctx, removal.DestroyOptions{KeepVolumes: b.Asked.KeepVolumes, Forget: b.Forget})
	if err != nil {
		return err
	}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (done Done, err error) {
		if err := b.Session.CarryOut(ctx, p, t); err != nil {
			return done, err
		}
		done.Changed = true
		if done.Kept, err = b.Cluster.KeptVolumes(ctx); err != nil {
			return done, fail.Wrap(fail.KindOf(err), err, "cluster %s is gone; list the volumes that are kept", b.Record.Name)
		}
		for _, s := range p.Steps {
			if s.Consent == nodes.ConsentLeave {
				done.Left = append(done.Left, s.Subject)
			}
		}
		return done, nil
	}
	return nil
}

func checkReset(a *Asked) error {
	if a.Machine != "" && a.KeepVolumes {
		return fail.New(fail.Invalid, "machine and keepVolumes exclude each other").Do("one machine gives no volume back")
	}
	return nil
}

func planReset(ctx context.Context, b *Begun) error {
	o := removal.ResetOptions{Machine: b.Asked.Machine, KeepVolumes: b.Asked.KeepVolumes}
	p, err := b.Cluster.PlanReset(ctx, o)
	if err != nil {
		return err
	}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		t.Commit = func(ctx context.Context) error { return b.Cluster.BeginReset(ctx, o) }
		return Done{Changed: true}, b.Session.CarryOut(ctx, p, t)
	}
	return nil
}
