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
	"github.com/naupegos/naupegos/internal/cli/infile"
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
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/filelock"
	"github.com/naupegos/naupegos/internal/userdir"
)

// session is a verb's session on one cluster. Close it in any case.
type session struct {
	*operate.Session
	app *App
}

// sessionOptions are the needs of a verb; see operate.Options.
type sessionOptions struct {
	verb     string // empty: no lease, no changes
	look     bool   // no plan: a missing store is not made
	readOnly bool
	looking  bool // only look whether there is anything to do
	bundle   bundles.Need
	newest   bool                        // the newest bundle of the release, even if the cluster was built with another one
	say      io.Writer                   // receives progress before the plan; nil: standard error
	foresee  func(context.Context) error // called before a bundle is made; an error prevents that; may be nil
}

// readDocument parses the document at path; "-" is standard input.
func (a *App) readDocument(path string) (*v1alpha1.Cluster, []byte, error) {
	f, err := infile.Read(a.now(), path, a.In)
	if err != nil {
		return nil, nil, err
	}
	return siteset.ReadDocument(f.Name, f.Dir, f.Data)
}

// located adds the positions in the document to a refusal of changes.
func located(err error, file string, data []byte) error {
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		return refused.Locate(file, data)
	}
	return err
}

// openDocument starts a session on the cluster that a document describes, known or new.
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
		tellIfRestored(a, s.Record)
	}
	return &session{s, a}, err
}

// openNamed starts a session on a cluster of the store, with the last applied document.
func (a *App) openNamed(ctx context.Context, name string, o sessionOptions) (*session, *v1alpha1.Cluster, error) {
	st, err := a.viewStore(ctx) // without a store the cluster does not exist, and no store is made
	if err != nil {
		return nil, nil, err
	}
	s, doc, err := operate.OpenNamed(ctx, st, name, a.options(o))
	if err == nil {
		tellIfRestored(a, s.Record)
	}
	return &session{s, a}, doc, err
}

// begin opens a session and makes the first plan.
func (a *App) begin(ctx context.Context, asked operate.Asked, n work.Need, here func(*operate.Options), propose func(context.Context, *operate.Begun) error) (*operate.Begun, error) {
	with := optionsOf(&asked, n)
	if n.CarryOut && asked.Converges() {
		with.foresee = foresee(a, asked, here, propose)
	}
	open, o := a.openStore, a.options(with)
	if !asked.Makes() {
		open = a.viewStore // without a store the cluster does not exist, and no store is made
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
		tellIfRestored(a, b.Record)
	}
	return b, err
}

// shownFile returns the name of a document's file in errors.
func shownFile(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// options returns the options for a verb on the operator's host, with its files and terminal.
func (a *App) options(o sessionOptions) operate.Options {
	if o.say == nil {
		o.say = a.Err
	}
	with := operate.Options{Verb: o.verb, Look: o.looking, ReadOnly: o.readOnly, Ask: terminal.Asker(a.In, a.Err), Agent: findAgent, Say: o.say, Version: version, RenewBefore: killpoint.RenewBefore()}
	if o.bundle != bundles.NotNeeded {
		say := o.say
		if o.bundle == bundles.IfHere { // there is no progress to show, because nothing is made
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

// onCluster calls do with a session on a cluster of the store, and closes it.
func (a *App) onCluster(ctx context.Context, name string, o sessionOptions, do func(*session) error) error {
	s, _, err := a.openNamed(ctx, name, o)
	if err != nil {
		return err
	}
	return s.CloseWith(do(s))
}

// see returns a view of a cluster, from the store or a server.
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

// findAgent returns the path of naupegos-agent, beside this program.
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

// storeVariable names the store if --store does not.
const storeVariable = "NAUPEGOS_STORE"

// location returns the location of the user's store.
func (a *App) location() (store.Location, error) {
	now, err := a.where.Now()
	at := store.Location{Dir: now.StateDir, URL: now.Store, Unlock: a.unlocked, Wait: filelock.Wait{For: max(a.where.StoreWait, time.Millisecond), Say: a.Err, TTY: terminal.Only(a.Err)}}
	if err != nil {
		return at, err
	}
	if a.StoreURL != "" && engine.HasPassword(at.URL) {
		return at, fail.New(fail.Invalid, "--store holds a password: every user of this host can read the arguments of a command").
			Do("leave it away, and give it by PGPASSWORD or ~/.pgpass, or the whole address by $%s", storeVariable)
	}
	if at.URL != "" && !engine.IsURL(at.URL) { // not shown: it may be a mistyped address with a password
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

// newServerCmds returns naupegos server and naupegos ui.
func newServerCmds(a *App) []*cobra.Command {
	backup := func(ctx context.Context, w io.Writer, recipient string) error {
		at, err := a.location()
		if err == nil {
			_, err = store.Backup(ctx, at, w, archive.Key{Recipients: []string{recipient}})
		}
		return err
	}
	h := serving.Host{
		Out: a.Out, Err: a.Err, OpenStore: a.openStore, StateDir: a.ownDir, Agent: findAgent, Backup: backup, Options: a.served, HasBundle: bundles.Check, Version: version, Remote: a.server, Verbs: serverStoreVerbs(a),
		Look: func(string) operate.Options {
			return a.options(sessionOptions{readOnly: true, bundle: bundles.IfHere, say: io.Discard})
		},
	}
	return []*cobra.Command{serving.New(h), serving.NewUI(h)}
}

// served returns the options for a verb on a server: the same as for this command, but without its terminal, which is not the client's.
func (a *App) served(asked operate.Asked, n work.Need) operate.Options {
	return (&App{Err: a.Err}).options(optionsOf(&asked, n))
}

// optionsOf returns the options for planning or executing a verb.
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
	return userdir.State()
}

// viewStore opens the user's store for reading: a missing store appears empty and is not made.
func (a *App) viewStore(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	return store.View(ctx, at)
}
