// Package operate carries verbs out on clusters: it holds the lease, the document and the record while a verb plans, waits for agreement and runs.
// The operator's command and the server call it; a Front shows plans to the user and asks for agreement.
package operate

import (
	"context"
	"io"
	"maps"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/queue"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/store"
)

// Session is one verb at work on one cluster. Close it in any case.
type Session struct {
	Store   store.Store
	Record  *store.Cluster
	Found   store.Cluster // Record as it was at the start
	Cluster *cluster.Cluster
	Bundle  *bundle.Bundle // of the release that machines run; nil if the verb needs none, or if it is not available here

	verb        string
	asked       *Asked         // what the session is for; nil: see verb
	by          string         // the user who asked for it; empty: the process
	subject     string         // what the verb acts on, if only planning finds that out
	remark      string         // ends the titles of runs, behind the subject
	ran         time.Duration  // all runs so far
	evidence    *plan.Evidence // of all runs so far; nil: none
	credentials []used         // credentials that the document names
	version     string         // of this program
	given       *backups.Given
	revives     bool        // the new record is of a cluster that was destroyed
	lease       store.Lease // nil for verbs that change nothing, and for a new cluster before Commit
	done        func()      // gives the session's turn back; nil: it has none
}

// Options says what a verb needs.
type Options struct {
	Verb     string // shown to processes that wait for the lease; empty: no lease, for commands that change nothing
	By       string // the user who asks, for the lease; empty: only the process is known
	Look     bool   // plan only far enough to see whether there is anything to do; see Begun.Idle
	ReadOnly bool   // store nothing, not even keys, before Commit
	// Ask asks for a password on the operator's terminal, without echo; nil: there is no terminal.
	Ask     func(question string) (string, error)
	NewID   string                          // ID for a cluster that the store does not know yet; empty: the store's next one
	Revives bool                            // NewID may be the ID of a destroyed cluster, which comes back
	Given   *backups.Given                  // secrets and facts of a cluster that is restored or imported under NewID; nil: the cluster is new
	Agent   func() (path string, err error) // finds naupegos-agent on this host
	// Edit returns the document to use in place of the one in the record, which stays until the verb commits another. nil: the record's document.
	Edit func(rec *store.Cluster) (*v1alpha1.Cluster, error)
	// Bundle finds or makes the bundle of a Kubernetes release for the cluster of a document, as cluster.Bundles says; was is the ID of the
	// bundle that the cluster was built with, or empty. nil: the verb needs no bundle.
	Bundle FindBundle
	// HandOver takes the files that the owner of a released cluster needs; nil: the client must prove with Asked.Taken that it has them.
	HandOver func(files map[string][]byte) error
	Backups  BackupSource
	// Policy says which resources of this host documents may use. Servers set it; nil: the operator is the host's user and has access anyway.
	Policy *policy.Policy
	// Sets renders the document's manifests and charts; nil: in this process, which they can end.
	Sets siteset.Renderer
	// Turns limits the sessions that read one cluster at a time. Servers set it for sessions that only read; nil: no limit.
	Turns   *queue.Queues
	Say     io.Writer // receives progress lines during planning; may be nil
	Version string    // of this program
	// RenewBefore is how long before its expiry a certificate is due; 0: the default of pki.Options.
	RenewBefore time.Duration

	asked *Asked // set by Begin
}

// OpenDocument starts a session on the cluster that a document describes, whether or not the store knows it. Commit stores a new cluster.
// The session closes the store, even if opening fails.
func OpenDocument(ctx context.Context, st store.Store, doc *v1alpha1.Cluster, o Options) (*Session, error) {
	s := &Session{Store: st, verb: o.Verb, asked: o.asked, by: o.By, version: o.Version}
	defer s.afterPanic()
	name := doc.Metadata.Name
	rec, err := st.Cluster(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		rec = &store.Cluster{Name: name, Provider: doc.Spec.Provider.Name()}
		if rec.ID, err = newID(ctx, st, name, o); err != nil {
			return nil, s.CloseWith(err)
		}
		s.revives = o.Revives
		if s.given = o.Given; o.Given != nil {
			rec.Facts = o.Given.Facts
		}
	}
	if err == nil {
		staged.StayWith(rec, doc)
		err = env.CheckChanges(rec, doc) // before a bundle is made in vain
	}
	if err == nil {
		err = s.open(ctx, rec, doc, o)
	}
	if err != nil {
		return nil, s.CloseWith(err)
	}
	return s, nil
}

// newID returns the ID of a cluster that the store does not know yet.
func newID(ctx context.Context, st store.Store, name string, o Options) (string, error) {
	if o.Revives {
		return o.NewID, store.CheckID(name, o.NewID)
	}
	return st.NextID(ctx, name, o.NewID)
}

// OpenNamed starts a session on a cluster that the store knows, and returns its stored document. The session uses that document, or the one that
// o.Edit returns. The session closes the store, even if opening fails.
func OpenNamed(ctx context.Context, st store.Store, name string, o Options) (*Session, *v1alpha1.Cluster, error) {
	s := &Session{Store: st, verb: o.Verb, asked: o.asked, by: o.By, version: o.Version}
	defer s.afterPanic()
	rec, err := st.Cluster(ctx, name)
	if err != nil {
		return nil, nil, s.CloseWith(err)
	}
	doc, err := validation.Parse("the stored document of "+name, rec.Document)
	if err == nil {
		err = s.open(ctx, rec, doc, o)
	}
	if err != nil {
		return nil, nil, s.CloseWith(err)
	}
	return s, doc, nil
}

// afterPanic closes the session if opening it panicked: a server continues, and must not keep the lease and the store's connection.
func (s *Session) afterPanic() {
	if r := recover(); r != nil {
		_ = s.Close() // the panic says more
		panic(r)
	}
}

// open takes the lease, rereads the record, edits and admits the document, and opens the cluster, which gets the bundle.
func (s *Session) open(ctx context.Context, rec *store.Cluster, doc *v1alpha1.Cluster, o Options) (err error) {
	if o.Verb != "" && !rec.CreatedAt.IsZero() {
		if err := s.acquire(ctx, rec.ID); err != nil {
			return err
		}
		// The previous holder of the lease may have changed the record.
		if rec, err = s.Store.Cluster(ctx, rec.Name); err != nil {
			return err
		}
	}
	if o.Given != nil && env.Importing(rec) { // the cluster was read again: use the new facts
		s.given, rec.Facts, rec.Document = o.Given, o.Given.Facts, nil
	}
	if o.Edit != nil {
		if doc, err = o.Edit(rec); err != nil {
			return err
		}
	}
	staged.StayWith(rec, doc)
	if err := o.Admit(ctx, s.Store, doc); err != nil {
		return err
	}
	if o.Turns != nil {
		if s.done, err = o.turn(ctx, rec.Name); err != nil {
			return err
		}
	}
	s.credentials = named(doc)
	if rec.Provider != doc.Spec.Provider.Name() {
		return fail.New(fail.Refused, "cluster %s lives on provider %s; it can't move to %s", rec.Name, rec.Provider, doc.Spec.Provider.Name()).
			Do("naupegos destroy %s first, or give the new cluster another name", rec.Name)
	}
	s.Record, s.Found = rec, *rec
	deps := cluster.Deps{Document: doc, Record: rec, Store: s.Store, Secrets: s.Store.Secrets(rec.ID), Given: s.given, ReadOnly: o.ReadOnly, Closed: o.Policy != nil, Ask: o.Ask,
		RenewBefore: o.RenewBefore, Sets: o.Sets}
	if o.Policy != nil {
		deps.BMCs = o.Policy.BMC
	}
	if o.Bundle != nil {
		deps.Bundles = func(ctx context.Context, version string) (use, newest *bundle.Bundle, err error) {
			return o.Bundle(ctx, doc, version, memory.BundleOf(rec))
		}
	}
	if deps.AgentPath, err = o.Agent(); err != nil {
		return err
	}
	if s.Cluster, err = cluster.Open(ctx, deps); err == nil {
		s.Bundle = s.Cluster.Bundle()
	}
	return err
}

// acquire takes the lease of the session's cluster.
func (s *Session) acquire(ctx context.Context, id string) (err error) {
	s.lease, err = s.Store.AcquireLease(ctx, id, s.verb, store.LeaseOptions{Title: s.about().Title, By: s.by})
	return err
}

// IsNew reports whether the store does not know the cluster yet.
func (s *Session) IsNew() bool { return s.Record.CreatedAt.IsZero() }

// Commit stores the document of an agreed plan, and the facts and secrets made during planning; only then may the cluster be changed. A new cluster gets
// its record and its lease. If two processes planned the same new cluster, the second gets fail.Conflict.
func (s *Session) Commit(ctx context.Context, document []byte) error {
	s.Record.Document = document
	if s.IsNew() {
		create := s.Store.CreateCluster
		if s.revives {
			create = s.Store.ReviveCluster
		}
		created, err := create(ctx, *s.Record)
		if fail.KindOf(err) == fail.Conflict {
			return fail.Wrap(fail.Conflict, err, "cluster %s changed while it was planned", s.Record.Name).Do("run the same command again: it plans again")
		}
		if err != nil {
			return err
		}
		*s.Record = *created
		if err := s.acquire(ctx, created.ID); err != nil {
			return err
		}
	} else if string(s.Found.Document) != string(document) || !maps.Equal(s.Found.Facts, s.Record.Facts) {
		if err := s.Store.SaveCluster(ctx, s.Record); err != nil {
			return err
		}
	}
	return s.Cluster.Commit(ctx)
}

// releaseTimeout bounds the release of the lease.
const releaseTimeout = 5 * time.Second

// Close releases everything that the session holds.
func (s *Session) Close() error { return s.CloseWith(nil) }

// CloseWith releases everything that the session holds and returns err, or the first error of closing if err is nil.
func (s *Session) CloseWith(err error) error {
	if s.done != nil {
		defer s.done()
		s.done = nil
	}
	if s.Cluster != nil {
		if e := s.Cluster.Close(); err == nil {
			err = e
		}
	}
	if s.lease != nil {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		if e := s.lease.Release(ctx); err == nil {
			err = e
		}
	}
	if e := s.Store.Close(); err == nil {
		err = e
	}
	return err
}

// irrevocable reports whether the effect of a step can't be undone.
func irrevocable(s *plan.Step) bool {
	return s.Action == plan.Destroy || s.Disruption().AtLeast(plan.Removing)
}
