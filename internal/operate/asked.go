package operate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// Asked is a request for a verb, from the command or over the network, with every option that decides the plan. The table verbs says which options
// a verb takes.
type Asked struct {
	Verb        string       `json:"verb" enum:"apply,backup create,backup prune,backup rehearse,backup restore,certs rotate,destroy,etcd recover,import,machine kill,machine reboot,machine start,machine stop,node add,node cordon,node drain,node remove,node replace,node uncordon,release,renew,repair,reset,test,update,upgrade" doc:"The verb"`
	Cluster     string       `json:"cluster,omitempty" maxLength:"63" doc:"The cluster; with apply and no document, its stored document is applied"`
	Document    string       `json:"document,omitempty" doc:"The Cluster document to apply, or to change in place of the stored one (YAML)"`
	From        string       `json:"from,omitempty" maxLength:"1000" doc:"The document's name in errors: its file"`
	ClusterID   string       `json:"clusterID,omitempty" doc:"The ID that a new cluster gets, from its plan"`
	Edited      *Edited      `json:"edited,omitempty" doc:"The document with the verb's change, from its plan"`
	Only        []parts.Part `json:"only,omitempty" doc:"apply: the only parts of the cluster; none: all"`
	KeepVolumes bool         `json:"keepVolumes,omitempty" doc:"destroy, reset: leave the volumes of PersistentVolumeClaims in the cloud"`
	NewBundle   bool         `json:"newBundle,omitempty" doc:"apply: use the newest bundle of the release, even if the cluster was built with another one"`
	Machine     string       `json:"machine,omitempty" maxLength:"63" doc:"repair, reset: only this machine; etcd recover: the machine of the remaining member"`
	Machines    []string     `json:"machines,omitempty" maxItems:"1000" doc:"node, machine: their names; none: all machines of the cluster, for verbs about power"`
	Grow        *Grow        `json:"grow,omitempty" doc:"node add: the machines to add"`
	Drain       *Drain       `json:"drain,omitempty" doc:"node drain: its options"`
	Upgrade     *Upgrade     `json:"upgrade,omitempty" doc:"upgrade: its target and options"`
	Update      *Update      `json:"update,omitempty" doc:"update: its options"`
	Rotate      *Rotate      `json:"rotate,omitempty" doc:"certs rotate: the keys"`
	Seconds     int          `json:"seconds,omitempty" minimum:"0" maximum:"86400" doc:"test: time limit of each check; backup rehearse and restore: time limit of the rehearsal; 0: the default"`
	Backup      string       `json:"backup,omitempty" maxLength:"63" doc:"backup rehearse and restore: the backup's ID, or latest; empty with backup rehearse: the newest of this cluster, unless it is proven"`
	Restore     *Restore     `json:"restore,omitempty" doc:"backup restore: its options"`
	Import      *Import      `json:"import,omitempty" doc:"import: how to reach the cluster"`
	Taken       string       `json:"taken,omitempty" maxLength:"80" doc:"release: digest of the authorities and keys that the caller has, as POST …/release returns it; not for plans"`

	// Resumed says that an earlier process got the agreement and began: only the remaining work is planned. It can't be set over the network.
	Resumed bool `json:"-"`
}

// Name checks the request and returns the name of its cluster. For apply with a document, that is the name in the document, which must be valid.
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

// check returns the verb. It refuses unknown verbs, options that the verb does not take, a missing cluster, and requests that fail the verb's own check.
func (a *Asked) check() (*verb, error) {
	v := verbs[a.Verb]
	if v == nil {
		return nil, fail.New(fail.Invalid, "there is no verb %q to ask for", a.Verb).Do("ask for one of %s", verbNames())
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the request")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the request")
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
	return validation.ParseFilledIn(a.from(), []byte(a.Document))
}

// from returns the name of the document in error messages.
func (a *Asked) from() string {
	switch {
	case a.Document == "":
		return "the stored document of " + a.Cluster
	case a.From == "":
		return "the document"
	}
	return a.From
}

// Then returns the request to make after this verb has found more to do than was agreed to. The verb has begun by then and may have done its own work:
// a verb with goesOn is requested again, every other verb continues with apply.
func (a Asked) Then() Asked {
	if v := verbs[a.Verb]; v == nil || v.goesOn {
		return a
	}
	return Asked{Verb: Apply, Cluster: a.Cluster}
}

// GoesFurther reports whether a successful run of the verb may leave more to do.
func (a *Asked) GoesFurther() bool {
	v := verbs[a.Verb]
	return v != nil && (v.converges || a.Verb == Repair || a.Verb == recoverEtcd || a.Verb == restoreBackup)
}

// Begun is a session with the first plan of a request.
type Begun struct {
	*Session
	Asked    Asked
	Document *v1alpha1.Cluster
	First    *cluster.Applied
	Found    Done  // the part of the result that is known before execution
	Idle     bool  // nothing to do and nothing to store: CarryOut is unnecessary
	Closed   error // why the request can't be carried out now; nil: it can

	verb    *verb
	options Options
	restore *restore       // of backup restore
	foreign *Foreign       // of import
	undo    []func() error // releases further resources when the session closes
	look    bool
	bundles FindBundle // of a verb that finds its bundles itself
	later   string     // overrides First.Later
	edited  *Edited
	carry   func(ctx context.Context, t Terms) (Done, error) // nil: the first plan and its successors, as apply does
	before  func(ctx context.Context) error                  // runs after the commit, before the first step; may be nil
	said    string                                           // message for the user after success
}

// Begin opens a session and makes the first plan. Closing the session closes the store; if Begin fails, it has closed the store.
func Begin(ctx context.Context, st store.Store, a Asked, o Options) (*Begun, error) {
	b, returned := &Begun{Asked: a, look: o.Look}, false
	defer func() {
		if returned {
			return
		}
		if b.Session == nil { // a panic: a server continues after it, and must not keep the store's connection
			b.Session = &Session{Store: st}
		}
		_ = b.Close() // the panic says more
	}()
	err := b.open(ctx, st, o)
	returned = true
	if err != nil {
		return nil, err
	}
	return b, nil
}

// open does the work of Begin.
func (b *Begun) open(ctx context.Context, st store.Store, o Options) (err error) {
	if b.verb, err = b.Asked.check(); err != nil {
		return (&Session{Store: st}).CloseWith(err)
	}
	b.options, o.asked = o, &b.Asked
	if b.verb.beside {
		o.Verb, o.ReadOnly, o.Bundle, b.bundles = "", true, nil, o.Bundle
	}
	if b.verb.open != nil {
		err = b.verb.open(ctx, st, b, o)
	} else if b.Asked.Verb == Apply && b.Asked.Document != "" {
		o.NewID = b.Asked.ClusterID
		if b.Document, err = b.Asked.parse(); err == nil {
			b.Session, err = OpenDocument(ctx, st, b.Document, o)
		} else {
			err = (&Session{Store: st}).CloseWith(err)
		}
	} else {
		o.Edit = b.edit
		b.Session, _, err = OpenNamed(ctx, st, b.Asked.Cluster, o)
	}
	if err != nil { // the session is already closed
		return b.giveBack(err)
	}
	if err := b.guard(); err != nil {
		return b.CloseWith(err)
	}
	if err := b.plan(ctx); err != nil {
		return b.CloseWith(err)
	}
	if err := Recall(ctx, st, b.First.Plan); err != nil {
		return b.CloseWith(err)
	}
	return nil
}

// Close releases everything that b holds.
func (b *Begun) Close() error { return b.CloseWith(nil) }

// CloseWith releases everything that b holds and returns err, or the first error of closing if err is nil.
func (b *Begun) CloseWith(err error) error { return b.Session.CloseWith(b.giveBack(err)) }

// giveBack releases resources outside the session. It returns err, or the first error of releasing if err is nil.
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
	plan := b.verb.plan
	if b.Asked.Resumed && b.verb.converges {
		plan = planConverge
	}
	if err := plan(ctx, b); err != nil {
		return err
	}
	b.entitle(b.First.Plan)
	return nil
}

// planApply makes the plan of apply.
func (b *Begun) planApply(ctx context.Context) (err error) {
	b.First, err = b.Cluster.PlanApply(ctx)
	return err
}

// only makes p the whole work of the verb: no further plan follows.
func (b *Begun) only(p *plan.Plan) {
	b.First = &cluster.Applied{Plan: p}
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		if err := b.Session.CarryOut(ctx, p, t); err != nil {
			return Done{}, err
		}
		return Done{Changed: !p.Empty()}, nil
	}
}

// Later says why the first plan may leave more to do; empty if it leaves nothing.
func (b *Begun) Later() string {
	if b.later != "" || b.First.Observed == nil {
		return b.later
	}
	return b.First.Later()
}

// Resolved returns the request with the verb's edited document and, if it may make a cluster, the planned ID, so that its meaning no longer depends on
// when it is made. A client that agrees to the first plan sends this request.
func (b *Begun) Resolved() Asked {
	a := b.Asked
	a.ClusterID, a.Edited = "", b.edited
	if b.Asked.Verb == Apply && b.Asked.Document != "" || b.verb.open != nil && b.IsNew() {
		a.ClusterID = b.Record.ID
	}
	return a
}

// Digest returns a digest of the request (without From and Taken), of the first plan as shown, and of the cluster's ID. An agreement covers just these.
func (b *Begun) Digest() (string, error) {
	steps, err := json.Marshal(show.Agreed(b.First.Plan))
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the plan")
	}
	a := b.Resolved()
	a.ClusterID, a.From, a.Taken = b.Record.ID, "", "" // Taken is known only after the agreement
	asked, err := json.Marshal(a)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the request")
	}
	sum := sha256.New()
	for _, part := range [][]byte{asked, steps} {
		fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

// Things lists the inputs of a plan of the session: the observed resources, the bundle and the stored document.
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

// Propose shows the first plan, checks the consents to it and asks, as CarryOut would do, and changes nothing.
func (b *Begun) Propose(ctx context.Context, t Terms) error {
	if b.Closed != nil {
		return b.Closed
	}
	t.Commit, t.Plain = nil, t.Plain || b.verb.plain
	return b.begin(ctx, b.First.Plan, b.Later(), t)
}

// CarryOut carries the request out, beginning with the first plan, or returns b.Closed. If the verb commits, t.Commit runs before the verb's own commit.
func (b *Begun) CarryOut(ctx context.Context, t Terms) (done Done, err error) {
	if b.Closed != nil {
		return done, b.Closed
	}
	t.Plain = t.Plain || b.verb.plain
	created := b.IsNew()
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
	done.Created, done.Seconds, done.Evidence = created, b.ran.Round(time.Millisecond).Seconds(), b.evidence
	if err == nil && done.Changed && b.verb.converges {
		done.Soaks = b.Cluster.SoakNote()
	}
	return done, err
}

// committing returns a commit that calls first, commits the edited, given or stored document, and calls b.before. first and b.before may be nil.
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
		if err := b.Commit(ctx, document); err != nil {
			return err
		}
		if err := b.rememberFile(ctx); err != nil || b.before == nil {
			return err
		}
		return b.before(ctx)
	}
}

// rememberFile remembers the file that the document came from: status names it in the commands that help.
func (b *Begun) rememberFile(ctx context.Context) error {
	if b.Asked.Document == "" || b.Asked.From == "" || strings.ContainsFunc(b.Asked.From, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return nil // no document was given, or From describes it in words, such as "standard input"
	}
	return b.Cluster.Facts.Set(ctx, memory.DocumentFile, b.Asked.From)
}

// SSHDir returns the default directory of the cluster's ssh configuration.
func (s *Session) SSHDir() string { return filepath.Join(s.Store.Dir(), "ssh", s.Record.Name) }

// Forget removes the cluster's record and keys from the store, and its ssh configuration with its copy of a key. The history and the backups stay.
func (s *Session) Forget(ctx context.Context) error {
	if err := os.RemoveAll(s.SSHDir()); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the ssh configuration")
	}
	return s.Store.DeleteCluster(ctx, s.Record.ID)
}

// shownBefore returns a plan.Shown with p: a user agreed to p before the server process that planned it ended.
func shownBefore(p *plan.Plan) *plan.Shown {
	shown := &plan.Shown{}
	shown.Add(p)
	return shown
}
