package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/store"
)

// session is one verb at work on one cluster. Close it in any case.
type session struct {
	app     *App
	store   *store.Store
	rec     *store.Cluster
	cluster *cluster.Cluster
	lease   *store.Lease // nil for verbs that change nothing, and for a new cluster before commit
	bundle  *bundle.Bundle
	found   store.Cluster // rec as it was found
}

// sessionOptions says what a verb needs.
type sessionOptions struct {
	verb     string // shown to whoever is kept waiting by the lease; empty: no lease, nothing is changed
	look     bool   // nothing is planned: a store that does not exist stays unmade
	readOnly bool   // leave no trace, not even keys, before commit
	bundle   bundleNeed
	newID    string // the ID that a cluster gets which the store does not know yet; empty: the store's next one
	// edit returns the document to work with in place of the stored one, which stays until the verb commits another.
	edit func(stored []byte) (*v1alpha1.Cluster, error)
}

// bundleNeed says how much a verb needs the bundle of the cluster's Kubernetes release.
type bundleNeed int

const (
	noBundle   bundleNeed = iota // not at all
	haveBundle                   // if it is here
	getBundle                    // pulled or built if it isn't here
)

// readDocument parses the document at path; "-" is standard input.
func (a *App) readDocument(path string) (*v1alpha1.Cluster, []byte, error) {
	if path == "" {
		return nil, nil, fail.New(fail.Invalid, "no document given").Do("name it with -f FILE; naupegos init writes one")
	}
	var data []byte
	var err error
	if path == "-" {
		path = "standard input"
		data, err = io.ReadAll(a.In)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "read the document")
	}
	doc, err := v1alpha1.ParseFilledIn(path, data)
	return doc, data, err
}

// located says of the changes that were refused where in the document they stand.
func located(err error, file string, data []byte) error {
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		return refused.Locate(file, data)
	}
	return err
}

// openStore opens the user's store.
func (a *App) openStore(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, a.StateDir)
}

// viewStore opens the user's store to look at it: where there is none, it is empty and stays unmade.
func (a *App) viewStore(ctx context.Context) (*store.Store, error) {
	return store.View(ctx, a.StateDir)
}

// openDocument starts a session on the cluster that a document describes, known already or not. A new one is remembered when
// the session commits.
func (a *App) openDocument(ctx context.Context, doc *v1alpha1.Cluster, o sessionOptions) (*session, error) {
	open := a.openStore
	if o.look {
		open = a.viewStore
	}
	st, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{app: a, store: st}
	name := doc.Metadata.Name
	rec, err := st.Cluster(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		rec, err = &store.Cluster{ID: o.newID, Name: name, Provider: doc.Spec.Provider.Name()}, nil
		if rec.ID == "" {
			rec.ID, err = st.NextID(ctx, name)
		}
	}
	if err == nil {
		err = cluster.CheckChanges(rec, doc) // before a bundle is made that is not wanted
	}
	if err != nil {
		return nil, s.closeWith(err)
	}
	return s, s.closeOn(s.open(ctx, rec, doc, o))
}

// openNamed starts a session on a cluster that the store knows, with the document that was applied last.
func (a *App) openNamed(ctx context.Context, name string, o sessionOptions) (*session, *v1alpha1.Cluster, error) {
	st, err := a.viewStore(ctx) // where there is no store there is no such cluster, and none is made
	if err != nil {
		return nil, nil, err
	}
	s := &session{app: a, store: st}
	rec, err := st.Cluster(ctx, name)
	if err != nil {
		return nil, nil, s.closeWith(err)
	}
	doc, err := v1alpha1.Parse("the stored document of "+name, rec.Document)
	if err != nil {
		return nil, nil, s.closeWith(err)
	}
	return s, doc, s.closeOn(s.open(ctx, rec, doc, o))
}

// onCluster does something with a cluster that the store knows, and gives everything back.
func (a *App) onCluster(ctx context.Context, name string, o sessionOptions, do func(*session) error) error {
	s, _, err := a.openNamed(ctx, name, o)
	if err != nil {
		return err
	}
	return s.closeWith(do(s))
}

// open takes the lease, gets the bundle and opens the cluster.
func (s *session) open(ctx context.Context, rec *store.Cluster, doc *v1alpha1.Cluster, o sessionOptions) (err error) {
	if o.verb != "" && !rec.CreatedAt.IsZero() {
		if s.lease, err = s.store.AcquireLease(ctx, rec.ID, o.verb, store.LeaseOptions{}); err != nil {
			return err
		}
		// Whoever held the lease before may have changed the record.
		if rec, err = s.store.Cluster(ctx, rec.Name); err != nil {
			return err
		}
	}
	if o.edit != nil {
		if doc, err = o.edit(rec.Document); err != nil {
			return err
		}
	}
	if rec.Provider != doc.Spec.Provider.Name() {
		return fail.New(fail.Refused, "cluster %s lives on provider %s; it can't move to %s", rec.Name, rec.Provider, doc.Spec.Provider.Name()).
			Do("naupegos destroy %s first, or give the new cluster another name", rec.Name)
	}
	s.rec, s.found = rec, *rec
	if s.bundle, err = s.getBundle(ctx, doc, o.bundle); err != nil {
		return err
	}
	deps := cluster.Deps{
		Document: doc, Record: rec, Store: s.store, Secrets: s.store.Secrets(rec.ID), Bundle: s.bundle, ReadOnly: o.readOnly,
	}
	if deps.AgentPath, err = findAgent(); err != nil {
		return err
	}
	s.cluster, err = cluster.Open(ctx, deps)
	return err
}

// isNew reports whether the store does not know the cluster yet.
func (s *session) isNew() bool { return s.rec.CreatedAt.IsZero() }

// commit remembers, when a plan was agreed to, what is wanted now and what was made while planning: from then on the cluster is
// changed. A new cluster gets its record and its lease; of two who planned the same new cluster, one gets them.
func (s *session) commit(ctx context.Context, verb string, document []byte) error {
	s.rec.Document = document
	if s.isNew() {
		created, err := s.store.CreateCluster(ctx, *s.rec)
		if fail.KindOf(err) == fail.Conflict {
			return fail.Wrap(fail.Conflict, err, "cluster %s changed while it was planned", s.rec.Name).Do("run the same command again: it plans again")
		}
		if err != nil {
			return err
		}
		*s.rec = *created
		if s.lease, err = s.store.AcquireLease(ctx, s.rec.ID, verb, store.LeaseOptions{}); err != nil {
			return err
		}
	} else if string(s.found.Document) != string(document) || !maps.Equal(s.found.Facts, s.rec.Facts) {
		if err := s.store.SaveCluster(ctx, s.rec); err != nil {
			return err
		}
	}
	return s.cluster.Commit(ctx)
}

// getBundle finds or makes the bundle of a Kubernetes release.
func (s *session) getBundle(ctx context.Context, doc *v1alpha1.Cluster, need bundleNeed) (*bundle.Bundle, error) {
	if need == noBundle {
		return nil, nil
	}
	version := doc.Spec.Kubernetes.Version
	var addons []string
	if doc.Spec.Provider.OpenStack != nil {
		addons = []string{bundle.AddonOpenStack}
	}
	root, err := bundle.DefaultRoot()
	if err != nil {
		return nil, err
	}
	lib, err := bundle.OpenLibrary(root)
	if err != nil {
		return nil, err
	}
	b, err := lib.Find(ctx, version, addons...)
	if fail.KindOf(err) != fail.NotFound {
		return b, err
	}
	if need == haveBundle {
		fmt.Fprintf(s.app.Err, "The bundle of Kubernetes %s is not here yet; apply pulls or builds it first (minutes).\n", version)
		return nil, nil
	}
	fmt.Fprintf(s.app.Err, "Getting the bundle of Kubernetes %s: pulled where the official downloads can be reached, built from source where not.\n", version)
	report := bundleProgress(s.app.Err)
	group, ctx := errgroup.WithContext(ctx)
	if l := doc.Spec.Provider.Local; l != nil && os.Geteuid() == 0 {
		group.Go(func() error { return makeBase(ctx, l.Image.Suite, report) }) // it is mostly waiting, as for a mirror
	}
	group.Go(func() error {
		b, err = lib.Ensure(ctx, version, bundle.EnsureOptions{Addons: addons, Progress: report})
		return err
	})
	err = group.Wait()
	return b, err
}

// makeBase puts the root file system of local machines into the cache, and reports it as a component of a bundle is reported.
func makeBase(ctx context.Context, suite string, report func(bundle.Event)) error {
	e := bundle.Event{Component: "debian " + suite, Phase: "make"}
	report(e)
	began := time.Now()
	err := local.MakeBase(ctx, suite, noProgress{})
	if err == nil {
		e.Finished, e.Elapsed = true, time.Since(began)
		report(e)
	}
	return err
}

// noProgress is for work of which begin and end are reported.
type noProgress struct{}

// Status drops what is going on.
func (noProgress) Status(string, ...any) {}

// findAgent returns the path of naupegos-agent: beside this program.
func findAgent() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "find this program's own path")
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", fail.Wrap(fail.Internal, err, "find this program's own path")
	}
	path := filepath.Join(filepath.Dir(exe), "naupegos-agent")
	if _, err := os.Stat(path); err != nil {
		return "", fail.Wrap(fail.Invalid, err, "find naupegos-agent").Do("it belongs beside %s; make build makes both", exe)
	}
	return path, nil
}

// releaseTimeout bounds giving the lease back.
const releaseTimeout = 5 * time.Second

// Close gives everything back.
func (s *session) Close() error { return s.closeWith(nil) }

func (s *session) closeWith(err error) error {
	if s.cluster != nil {
		if e := s.cluster.Close(); err == nil {
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
	if e := s.store.Close(); err == nil {
		err = e
	}
	return err
}

// closeOn closes the session where opening it failed.
func (s *session) closeOn(err error) error {
	if err != nil {
		return s.closeWith(err)
	}
	return nil
}
