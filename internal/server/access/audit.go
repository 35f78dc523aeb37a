package access

import (
	"context"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
)

// Limits on audit entries whose number and text strangers choose.
const (
	mostPath    = 200  // bytes of a path
	burstKnown  = 20   // refusals per minute that get their own entries, for an authenticated operator; one for an address without one
	mostSources = 1000 // operators and addresses that are counted separately within a minute
)

// changes reports whether a request may change something.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// entry returns the audit entry of a request.
func (a *asked) entry(r *http.Request, outcome string) store.AuditEntry {
	action := words.Clip(r.Method, 20) + " " + words.Clip(r.URL.Path, mostPath)
	if a.asks != "" {
		action += ": " + words.Clip(a.asks, mostPath)
	}
	return store.AuditEntry{At: time.Now(), Who: a.Name, Via: a.Via, Session: a.Session, From: server.Remote(r), Action: action,
		Cluster: words.Clip(a.cluster, 63), Outcome: outcome}
}

// note records a request in the audit if it changed something, was refused, or failed. returned is false if the handler panicked.
func (g *Gate) note(r *http.Request, a *asked, code int, returned bool) {
	outcome := "done"
	switch {
	case !returned:
		outcome = "failed: the handler panicked"
	case code >= http.StatusInternalServerError:
		outcome = "failed: " + http.StatusText(code)
	case code >= http.StatusBadRequest:
		outcome = "refused: " + http.StatusText(code)
	case a.looks || !changes(r):
		return
	}
	g.record(r, a.entry(r, outcome), outcome != "done")
}

// Note records an action on a page and its outcome in the audit.
func (g *Gate) Note(r *http.Request, who Operator, action, cluster string, err error) {
	a := g.asks(r, who)
	a.cluster = cluster
	e := a.entry(r, Outcome(err))
	e.Action = words.Clip(action, mostPath)
	g.record(r, e, err != nil)
}

// Outcome returns the audit's outcome for an error; nil is done.
func Outcome(err error) string {
	switch kind := fail.KindOf(err); {
	case err == nil:
		return "done"
	case kind == fail.Internal || kind == fail.Unreachable || kind == fail.NotReady:
		return "failed: " + kind.String()
	default:
		return "refused: " + kind.String()
	}
}

// record writes an entry. It writes only the first refusals of an operator or address in each minute, then one summary of the rest.
func (g *Gate) record(r *http.Request, e store.AuditEntry, repeats bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
	defer cancel()
	if repeats {
		burst, who := burstKnown, e.Who
		if e.Session == "" { // not authenticated
			burst, who = 1, peer.Key(e.From)
		}
		write, ended := g.quiet.Count(who, burst, e)
		g.summarize(ctx, ended)
		if !write {
			return
		}
	}
	if err := g.write(ctx, e); err != nil {
		g.log.Error("the audit can't be written", "error", err.Error(), "who", e.Who, "from", e.From, "action", e.Action, "outcome", e.Outcome)
	}
}

// write writes an entry, and remembers whether the audit is writable.
func (g *Gate) write(ctx context.Context, e store.AuditEntry) error {
	err := g.st.Note(ctx, e)
	g.broken.Store(err != nil)
	return err
}

// Unwritten reports whether the last entry could not be written into the audit log.
func (g *Gate) Unwritten() bool { return g.broken.Load() }

// summarize writes one entry for the held refusals of each operator or address.
func (g *Gate) summarize(ctx context.Context, all []peer.Held[store.AuditEntry]) {
	for _, h := range all {
		e := h.Last
		if h.Key == "" {
			e.From, e.Who = "other addresses", "nobody"
		}
		e.At, e.Count, e.Action = time.Now(), h.Times, "more within a minute, the last one "+e.Action
		if err := g.write(ctx, e); err != nil {
			g.log.Error("the audit can't be written", "error", err.Error(), "from", e.From, "requests", e.Count)
			return
		}
	}
}

// Summarize writes the summaries of repeated refusals each minute until ctx ends, and then the remaining ones.
func (g *Gate) Summarize(ctx context.Context) error {
	tick := time.NewTicker(peer.Window / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.summarize(ctx, g.quiet.Ended())
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			g.summarize(last, g.quiet.End())
			return nil
		}
	}
}

// begin records the beginning of an operation, and fails if it cannot.
func (g *Gate) begin(r *http.Request, e store.AuditEntry) error {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	if err := g.write(ctx, e); err != nil {
		g.log.Error("the audit can't be written; the request was refused", "error", err.Error(), "who", e.Who, "action", e.Action)
		return unwritten()
	}
	return nil
}

func unwritten() error {
	return fail.New(fail.NotReady, "the audit log can't be written, so the server refuses changes").Do("the server's log has the cause, such as a full disk")
}

// ready refuses a change that the audit cannot record: operations that need an administrator are recorded before they begin, and all other changes wait
// until the audit is writable again.
func (g *Gate) ready(r *http.Request, a *asked, need server.Role) error {
	switch {
	case need == server.Admin:
		return a.begun()
	case g.broken.Load():
		return a.begun()
	}
	return nil
}

// Ready makes the guard's check before a change on a page.
func (g *Gate) Ready(r *http.Request, who Operator, need server.Role, action, cluster string) error {
	a := g.asks(r, who)
	e := a.entry(r, "begun")
	e.Action, e.Cluster = words.Clip(action, mostPath), cluster
	if need == server.Admin || g.broken.Load() {
		return g.begin(r, e)
	}
	return nil
}

// OnHost runs a command on the store's host and records it in the audit: once before it runs, so that no change stays unrecorded, and once after it, with
// the outcome and the object that it acted on.
func OnHost(ctx context.Context, st store.Access, action, cluster string, do func() (on string, err error)) error {
	if err := NoteOnHost(ctx, st, action, cluster, "begun"); err != nil {
		return err
	}
	on, err := do()
	if on != "" {
		action = words.Clip(action, mostPath) + " " + words.Clip(on, mostPath)
	}
	noted := NoteOnHost(context.WithoutCancel(ctx), st, action, cluster, Outcome(err))
	if err == nil {
		return noted
	}
	return err
}

// NoteOnHost records a command on the store's host in the audit.
func NoteOnHost(ctx context.Context, st store.Access, action, cluster, outcome string) error {
	err := st.Note(ctx, store.AuditEntry{At: time.Now(), Who: HostUser(), Via: ViaHost, Session: "process " + strconv.Itoa(os.Getpid()), From: hostName(),
		Action: words.Clip(action, 2*mostPath), Cluster: cluster, Outcome: outcome})
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "note in the audit log: %s, %s", words.Clip(action, mostPath), outcome).Do("make the store writable: check the disk and the database")
	}
	return nil
}

// HostUser returns the user that runs this program, and the user behind sudo.
func HostUser() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && os.Getuid() == 0 {
		name += " for " + by
	}
	return words.Clip(name, 100) + " (uid " + strconv.Itoa(os.Getuid()) + ")"
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return strings.TrimSpace(words.Clip(name, 100))
}
