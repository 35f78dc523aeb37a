package operate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// Asked is a verb with all that decides what it plans: by the command, or over the network. Which options a verb takes is in the table of verbs.
type Asked struct {
	Verb        string       `json:"verb" enum:"apply,backup create,backup prune,backup rehearse,backup restore,certs rotate,destroy,etcd recover,import,machine kill,machine reboot,machine start,machine stop,node add,node cordon,node drain,node remove,node replace,node uncordon,release,renew,repair,reset,test,update,upgrade" doc:"What is to be done"`
	Cluster     string       `json:"cluster,omitempty" maxLength:"63" doc:"The cluster; of apply the one whose stored document is applied where none is given"`
	Document    string       `json:"document,omitempty" doc:"The Cluster document to apply, or to change in place of the stored one (YAML)"`
	From        string       `json:"from,omitempty" maxLength:"1000" doc:"What errors call the document: its file"`
	ClusterID   string       `json:"clusterID,omitempty" doc:"The ID that a new cluster gets, as its plan has it"`
	Edited      *Edited      `json:"edited,omitempty" doc:"The document with the verb's change, as its plan has it"`
	Only        []parts.Part `json:"only,omitempty" doc:"apply: the only parts of the cluster; none: all"`
	KeepVolumes bool         `json:"keepVolumes,omitempty" doc:"destroy, reset: leave the volumes of PersistentVolumeClaims in the cloud"`
	NewBundle   bool         `json:"newBundle,omitempty" doc:"apply: take the newest bundle of the release, also where the cluster was built with another one"`
	Machine     string       `json:"machine,omitempty" maxLength:"63" doc:"repair, reset: this machine alone; etcd recover: whose member is left"`
	Machines    []string     `json:"machines,omitempty" maxItems:"1000" doc:"node, machine: which ones; none: all of the cluster, where the verb is about machines' power"`
	Grow        *Grow        `json:"grow,omitempty" doc:"node add: what"`
	Drain       *Drain       `json:"drain,omitempty" doc:"node drain: how"`
	Upgrade     *Upgrade     `json:"upgrade,omitempty" doc:"upgrade: where to"`
	Update      *Update      `json:"update,omitempty" doc:"update: what"`
	Rotate      *Rotate      `json:"rotate,omitempty" doc:"certs rotate: which keys"`
	Seconds     int          `json:"seconds,omitempty" minimum:"0" maximum:"86400" doc:"test: how long each thing may take; backup rehearse and restore: how long the rehearsal may; 0: what usually does"`
	Backup      string       `json:"backup,omitempty" maxLength:"63" doc:"backup rehearse and restore: the backup's ID, or latest; backup rehearse, left out: the newest of this cluster, unless it is proven"`
	Restore     *Restore     `json:"restore,omitempty" doc:"backup restore: what comes of it"`
	Import      *Import      `json:"import,omitempty" doc:"import: how the cluster is reached"`
	Taken       string       `json:"taken,omitempty" maxLength:"80" doc:"release: which authorities and keys whoever asks has by now, as POST …/release says; not of a plan"`

	// Resumed tells that a process which is gone had agreed and begun: what is left is planned. Nobody asks for that over the network.
	Resumed bool `json:"-"`
}

// Name returns the cluster that is asked about. A document that is to be applied has to be good.
func (a *Asked) Name() (string, error) {
	if _, err := a.check(); err != nil {
		return "", err
	}
	if a.Verb == Apply && a.Document != "" {
		doc, err := a.parse()
		if err != nil {
			return "", err
		}
		return doc.Metadata.Name, nil
	}
	return a.Cluster, nil
}

// check refuses what is no verb, and options that a verb does not take.
func (a *Asked) check() (*verb, error) {
	v := verbs[a.Verb]
	if v == nil {
		return nil, fail.New(fail.Invalid, "there is no verb %q to ask for", a.Verb).Do("ask for one of %s", verbNames())
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read what is asked for")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read what is asked for")
	}
	for name := range given {
		if !v.has(name) {
			return nil, fail.New(fail.Invalid, "%s takes no %s", a.Verb, name)
		}
	}
	if a.Cluster == "" && (a.Verb != Apply || a.Document == "") {
		return nil, fail.New(fail.Invalid, "no cluster is named for %s", a.Verb)
	}
	if v.check == nil {
		return v, nil
	}
	return v, v.check(a)
}

func (a *Asked) parse() (*v1alpha1.Cluster, error) {
	return v1alpha1.ParseFilledIn(a.from(), []byte(a.Document))
}

// from is what errors call the document.
func (a *Asked) from() string {
	switch {
	case a.Document == "":
		return "the stored document of " + a.Cluster
	case a.From == "":
		return "the document"
	}
	return a.From
}

// Then returns what is asked for where this verb has found more to do than was agreed to: it has begun, and may have done what it was named for.
func (a Asked) Then() Asked {
	if v := verbs[a.Verb]; v == nil || v.goesOn {
		return a
	}
	return Asked{Verb: Apply, Cluster: a.Cluster}
}

// GoesFurther reports whether there may be more to do once a run of the verb has succeeded.
func (a *Asked) GoesFurther() bool {
	v := verbs[a.Verb]
	return v != nil && (v.converges || a.Verb == Repair || a.Verb == recoverEtcd || a.Verb == restoreBackup)
}

// Begun is a session with the first plan of what was asked.
type Begun struct {
	*Session
	Asked    Asked
	Document *v1alpha1.Cluster
	First    *cluster.Applied
	Found    Done  // what is known before anything is carried out
	Idle     bool  // there is nothing to do, and nothing to remember: nothing has to be carried out
	Closed   error // why it can't be carried out now; nil: it can

	verb    *verb
	options Options
	restore *restore       // of backup restore
	foreign *Foreign       // of import
	undo    []func() error // what is to be given back with the session
	look    bool
	bundles FindBundle // of a verb that gets bundles by itself
	later   string     // in place of what First says
	edited  *Edited
	carry   func(ctx context.Context, t Terms) (Done, error) // nil: the first plan, and what follows from it, as apply does
	before  func(ctx context.Context) error                  // once what is wanted is remembered, before the first step; may be nil
	said    string                                           // what is to be told once it is done
}

// Begin opens a session and makes the first plan. The session closes the store, also where it can't be opened.
func Begin(ctx context.Context, st store.Store, a Asked, o Options) (_ *Begun, err error) {
	b := &Begun{Asked: a, look: o.Look}
	if b.verb, err = a.check(); err != nil {
		return nil, (&Session{Store: st}).CloseWith(err)
	}
	b.options = o
	if b.verb.beside {
		o.Verb, o.ReadOnly, o.Bundle, b.bundles = "", true, nil, o.Bundle
	}
	if b.verb.open != nil {
		err = b.verb.open(ctx, st, b, o)
	} else if a.Verb == Apply && a.Document != "" {
		o.NewID = a.ClusterID
		if b.Document, err = a.parse(); err == nil {
			b.Session, err = OpenDocument(ctx, st, b.Document, o)
		} else {
			err = (&Session{Store: st}).CloseWith(err)
		}
	} else {
		o.Edit = b.edit
		b.Session, _, err = OpenNamed(ctx, st, a.Cluster, o)
	}
	if err != nil { // the session is closed by now
		return nil, b.giveBack(err)
	}
	if err := b.plan(ctx); err != nil {
		return nil, b.CloseWith(err)
	}
	return b, nil
}

// Close gives everything back.
func (b *Begun) Close() error { return b.CloseWith(nil) }

// CloseWith gives everything back and returns err, or what went wrong meanwhile.
func (b *Begun) CloseWith(err error) error { return b.Session.CloseWith(b.giveBack(err)) }

// giveBack gives back what is not the session's.
func (b *Begun) giveBack(err error) error {
	for _, undo := range b.undo {
		if e := undo(); err == nil {
			err = e
		}
	}
	return err
}

func (b *Begun) plan(ctx context.Context) error {
	if b.edited != nil {
		if err := b.resize(ctx); err != nil {
			return err
		}
	}
	if b.Asked.Resumed && b.verb.converges {
		return b.planApply(ctx)
	}
	return b.verb.plan(ctx, b)
}

// planApply plans what apply does.
func (b *Begun) planApply(ctx context.Context) (err error) {
	b.First, err = b.Cluster.PlanApply(ctx)
	return err
}

// only has one plan be all that is done: nothing follows from it.
func (b *Begun) only(p *plan.Plan) {
	b.First = &cluster.Applied{Plan: p}
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		if err := b.Session.CarryOut(ctx, p, t); err != nil {
			return Done{}, err
		}
		return Done{Changed: !p.Empty()}, nil
	}
}

// Later says why there may be more to do after the first plan; empty where there is not.
func (b *Begun) Later() string {
	if b.later != "" || b.First.Observed == nil {
		return b.later
	}
	return b.First.Later()
}

// Resolved is what was asked with nothing left that depends on when it is asked: whoever agrees to the first plan asks for that.
func (b *Begun) Resolved() Asked {
	a := b.Asked
	a.ClusterID, a.Edited = "", b.edited
	if b.Asked.Verb == Apply && b.Asked.Document != "" || b.verb.open != nil && b.IsNew() {
		a.ClusterID = b.Record.ID
	}
	return a
}

// Digest is of what was asked, of the first plan as it is shown, and of the cluster: whoever agrees to it agrees to just that.
func (b *Begun) Digest() (string, error) {
	steps, err := json.Marshal(show.JSON(b.First.Plan))
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the plan")
	}
	a := b.Resolved()
	a.ClusterID, a.From, a.Taken = b.Record.ID, "", "" // what is taken is known once it was agreed to
	asked, err := json.Marshal(a)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest what was asked")
	}
	sum := sha256.New()
	for _, part := range [][]byte{asked, steps} {
		fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

// Things says, a line each, what a plan of the session was made from.
func (s *Session) Things(ap *cluster.Applied) []string {
	var things []string
	if ap.Observed != nil {
		things = ap.Observed.Things()
	}
	if s.Bundle != nil {
		things = append(things, "bundle "+s.Bundle.ID)
	}
	if !s.IsNew() {
		things = append(things, fmt.Sprintf("stored document sha256:%x", sha256.Sum256(s.Found.Document)))
	}
	return things
}

// CarryOut does what was asked, from the first plan on. What Terms have to commit comes before what the verb itself remembers.
func (b *Begun) CarryOut(ctx context.Context, t Terms) (done Done, err error) {
	if b.Closed != nil {
		return done, b.Closed
	}
	t.Plain = t.Plain || b.verb.plain
	if b.verb.commits {
		t.Commit = b.committing(t.Commit)
	}
	if b.carry != nil {
		done, err = b.carry(ctx, t)
	} else {
		done.Changed, err = b.Converge(ctx, b.First, t)
		done.Paused = b.Cluster.PausesAfter() != ""
	}
	if err == nil && done.Said == "" {
		done.Said = b.said
	}
	return done, err
}

// committing remembers what is wanted now.
func (b *Begun) committing(first func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if first != nil {
			if err := first(ctx); err != nil {
				return err
			}
		}
		document := b.Record.Document
		switch {
		case b.edited != nil:
			document = []byte(b.edited.Document)
		case b.Asked.Document != "":
			document = []byte(b.Asked.Document)
		}
		if err := b.Commit(ctx, document); err != nil || b.before == nil {
			return err
		}
		return b.before(ctx)
	}
}

// SSHDir is where the cluster's ssh configuration lies unless the user says otherwise.
func (s *Session) SSHDir() string { return filepath.Join(s.Store.Dir(), "ssh", s.Record.Name) }

// Forget removes what the store and its directory hold of the cluster: keys, and the ssh configuration with its copy of one.
// The history and the backups stay.
func (s *Session) Forget(ctx context.Context) error {
	if err := os.RemoveAll(s.SSHDir()); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the ssh configuration")
	}
	return s.Store.DeleteCluster(ctx, s.Record.ID)
}

// shownBefore is what was agreed to by those who asked first, before a server vanished.
func shownBefore(p *plan.Plan) *plan.Shown {
	shown := &plan.Shown{}
	shown.Add(p)
	return shown
}
