package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/killpoint"
	"github.com/naupegos/naupegos/internal/cli/serving"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/store"
)

// session is one verb at work on one cluster. Close it in any case.
type session struct {
	*operate.Session
	app *App
}

// sessionOptions says what a verb needs; see operate.Options.
type sessionOptions struct {
	verb     string // empty: no lease, nothing is changed
	look     bool   // nothing is planned: a store that does not exist stays unmade
	readOnly bool
	looking  bool // it is seen whether there is anything to do, and no more
	bundle   bundles.Need
	newest   bool                        // the newest bundle of the release, also where the cluster was built with another one
	say      io.Writer                   // receives progress of the work before the plan; nil: standard error
	foresee  func(context.Context) error // called before a bundle is made, which an error prevents; may be nil
}

// readDocument parses the document at path; "-" is standard input.
func (a *App) readDocument(path string) (*v1alpha1.Cluster, []byte, error) {
	if path == "" {
		return nil, nil, fail.New(fail.Invalid, "no document given").Do("name it with -f FILE; naupegos init writes one")
	}
	dir, data, err := filepath.Dir(path), []byte(nil), error(nil)
	if path == "-" {
		path = "standard input"
		data, err = io.ReadAll(a.In)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "read the document")
	}
	return siteset.ReadDocument(path, dir, data)
}

// located says of the changes that were refused where in the document they stand.
func located(err error, file string, data []byte) error {
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		return refused.Locate(file, data)
	}
	return err
}

// openDocument starts a session on the cluster that a document describes, known already or not.
func (a *App) openDocument(ctx context.Context, doc *v1alpha1.Cluster, o sessionOptions) (*session, error) {
	open := a.openStore
	if o.look {
		open = a.viewStore
	}
	st, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := operate.OpenDocument(ctx, st, doc, a.options(o))
	if err == nil {
		a.tellIfRestored(s.Record)
	}
	return &session{s, a}, err
}

// openNamed starts a session on a cluster that the store knows, with the document that was applied last.
func (a *App) openNamed(ctx context.Context, name string, o sessionOptions) (*session, *v1alpha1.Cluster, error) {
	st, err := a.viewStore(ctx) // where there is no store there is no such cluster, and none is made
	if err != nil {
		return nil, nil, err
	}
	s, doc, err := operate.OpenNamed(ctx, st, name, a.options(o))
	if err == nil {
		a.tellIfRestored(s.Record)
	}
	return &session{s, a}, doc, err
}

// begin opens a session and makes the first plan of what is asked.
func (a *App) begin(ctx context.Context, asked operate.Asked, n work.Need, here func(*operate.Options), propose func(context.Context, *operate.Begun) error) (*operate.Begun, error) {
	with := optionsOf(&asked, n)
	if n.CarryOut && asked.Converges() {
		with.foresee = foresee(a, asked, here, propose)
	}
	open, o := a.openStore, a.options(with)
	if !asked.Makes() {
		open = a.viewStore // where there is no store there is no such cluster, and none is made
	}
	if here != nil {
		here(&o)
	}
	st, err := open(ctx)
	if err != nil {
		return nil, err
	}
	b, err := operate.Begin(ctx, st, asked, o)
	if err == nil {
		a.tellIfRestored(b.Record)
	}
	return b, err
}

// shownFile is what errors call a document's file.
func shownFile(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// options says what a verb needs where the operator's own files and terminal are.
func (a *App) options(o sessionOptions) operate.Options {
	if o.say == nil {
		o.say = a.Err
	}
	with := operate.Options{Verb: o.verb, Look: o.looking, ReadOnly: o.readOnly, Ask: terminal.Asker(a.In, a.Err), Agent: findAgent, Say: o.say, Version: version, RenewBefore: killpoint.RenewBefore()}
	if o.bundle != bundles.NotNeeded {
		say := o.say
		if o.bundle == bundles.IfHere { // nothing is made, so there is no progress to show
			say = &bundles.Once{To: o.say}
		}
		with.Bundle = func(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (use, newest *bundle.Bundle, err error) {
			if o.newest {
				was = ""
			}
			if o.bundle == bundles.Made && o.foresee != nil {
				if here, err := bundles.Check(ctx, doc, version, was); err != nil {
					return nil, nil, err
				} else if !here {
					if err := o.foresee(ctx); err != nil {
						return nil, nil, err
					}
				}
			}
			defer func(began time.Time) { a.bundled += time.Since(began) }(time.Now())
			return bundles.Get(ctx, say, doc, version, o.bundle, was)
		}
	}
	return with
}

// onCluster does something with a cluster that the store knows, and gives everything back.
func (a *App) onCluster(ctx context.Context, name string, o sessionOptions, do func(*session) error) error {
	s, _, err := a.openNamed(ctx, name, o)
	if err != nil {
		return err
	}
	return s.CloseWith(do(s))
}

// see looks at something of a cluster that the store knows, or a server's.
func see[In, T any](ctx context.Context, a *App, name string, v operate.View[In, T], in In) (out *T, err error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		return client.See(ctx, c, name, v, in)
	}
	err = a.onCluster(ctx, name, sessionOptions{look: true, readOnly: true}, func(s *session) (err error) {
		if !v.Secret {
			out, err = v.See(ctx, s.Session, in)
			return err
		}
		return access.OnHost(ctx, s.Store, v.Name+" "+name, name, func() (_ string, err error) {
			out, err = v.See(ctx, s.Session, in)
			return "", err
		})
	})
	return out, err
}

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

// storeVariable names the store where --store does not.
const storeVariable = "NAUPEGOS_STORE"

// location says where the user's store is.
func (a *App) location() (store.Location, error) {
	now, err := a.where.Now()
	at := store.Location{Dir: now.StateDir, URL: now.Store, Unlock: a.unlocked}
	if err != nil {
		return at, err
	}
	if a.StoreURL != "" && store.HasPassword(at.URL) {
		return at, fail.New(fail.Invalid, "--store holds a password: everybody on this host can read the arguments of a command").
			Do("leave it away, and give it by PGPASSWORD or ~/.pgpass, or the whole address by $%s", storeVariable)
	}
	if at.URL != "" && !store.IsURL(at.URL) { // not shown: it may be a mistyped address with a password
		return at, fail.New(fail.Invalid, "--store, or $%s, does not begin with postgres://", storeVariable).
			Do("name a directory by --state-dir, a database by --store postgres://USER@HOST/DATABASE")
	}
	return at, nil
}

// openStore opens the user's store.
func (a *App) openStore(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, at)
}

// newServerCmds returns naupegos server and naupegos ui, with what this command lends them.
func newServerCmds(a *App) []*cobra.Command {
	backup := func(ctx context.Context, w io.Writer, recipient string) error {
		at, err := a.location()
		if err == nil {
			_, err = store.Backup(ctx, at, w, store.Key{Recipients: []string{recipient}})
		}
		return err
	}
	h := serving.Host{
		Out: a.Out, Err: a.Err, OpenStore: a.openStore, StateDir: a.ownDir, Agent: findAgent, Backup: backup, Options: a.served, Version: version, Remote: a.server, Verbs: serverStoreVerbs(a),
		Look: func(string) operate.Options {
			return a.options(sessionOptions{readOnly: true, bundle: bundles.IfHere, say: io.Discard})
		},
	}
	return []*cobra.Command{serving.New(h), serving.NewUI(h)}
}

// served says with what the server plans a verb, and carries it out: as this command does, without its terminal, which is no client's.
func (a *App) served(asked operate.Asked, n work.Need) operate.Options {
	return (&App{Err: a.Err}).options(optionsOf(&asked, n))
}

// optionsOf says with what a verb is planned, and carried out.
func optionsOf(asked *operate.Asked, n work.Need) sessionOptions {
	o := sessionOptions{readOnly: !n.CarryOut || asked.ReadOnly(), newest: asked.NewBundle, say: n.Say}
	if n.CarryOut {
		o.verb = asked.Verb
	}
	switch o.looking = n.Look; {
	case n.Look:
	case asked.Bundle() == operate.BundleIfHere:
		o.bundle = bundles.IfHere
	case asked.Bundle() == operate.BundleMade:
		if o.bundle = bundles.IfHere; n.CarryOut || n.Prepare {
			o.bundle = bundles.Made
		}
	}
	return o
}

// ownDir returns this user's own directory.
func (a *App) ownDir() (string, error) {
	now, err := a.where.Now()
	if err != nil || now.StateDir != "" {
		return now.StateDir, err
	}
	return store.DefaultDir()
}

// viewStore opens the user's store to look at it: where there is none, it is empty and stays unmade.
func (a *App) viewStore(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	return store.View(ctx, at)
}
