// Package routes speaks HTTP for the registry of machines: what machines ask and say while they boot, are installed and run, the older
// system's routes with the same selectors and bodies, and the API that operators' clients use.
//
// Handlers only translate. Which listener a route is on, and which role it needs, stands in one table (Mounts).
package routes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// Options are what the routes need beside the registry. What is nil answers that it is not here.
type Options struct {
	Registry *registry.Registry
	// Ignition returns what a machine is to be installed with, for the query that it would ask for it with.
	Ignition func(ctx context.Context, query string) ([]byte, error)
	// Backup writes a copy of the store, and returns what it says of it.
	Backup func(ctx context.Context) (any, error)
	// Systems lists the system images that machines can be installed with; nil: there are none.
	Systems func() ([]order.System, error)
	// Shutdown has the server stop.
	Shutdown func()
	// Settings are what the server was started with; no secrets.
	Settings map[string]any
	// Who names the operator who asks, for what is remembered; nil: nobody is named.
	Who func(r *http.Request) string
	Log *slog.Logger // nil: nothing is told
}

// routes are the handlers.
type routes struct {
	Options
	strangers *peer.Log
}

// answering is how long an answer may take: a machine that is switched takes its time.
const answering = 2 * time.Minute

// handler is a handler that may fail.
type handler func(w http.ResponseWriter, r *http.Request) error

// Mounts lists all routes: what each answers, where, and to whom.
//
// Machines that boot have no key yet, or software that knows of none: what is on Boot is open to anybody on the provisioning network, and gives
// no secrets away. Where a route acts for one machine, and that machine has a key that somebody approved, it needs that key; see machine.
func Mounts(o Options) []server.Mount {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := routes{o, peer.NewLog(o.Log)}
	var all []server.Mount
	add := func(on server.Listener, need server.Role, pattern string, do handler) {
		scope := server.Everything() // physical machines are of no cluster in particular
		if need == server.Anybody {
			scope = server.Machine()
		}
		all = append(all, server.Mount{Pattern: pattern, On: on, Need: need, Scope: scope, Handler: h.answer(do), Timeout: answering})
	}
	open := func(pattern string, do handler) { add(server.Boot, server.Anybody, pattern, do) }
	read := func(pattern string, do handler) { add(server.API, server.Read, pattern, do) }
	operate := func(pattern string, do handler) { add(server.API, server.Operate, pattern, do) }
	admin := func(pattern string, do handler) { add(server.API, server.Admin, pattern, do) }

	open("POST /discovery", h.discover)
	open("GET /install-authorization/{selector}", h.authorize)
	open("POST /lifecycle/coreos-install/{result}/{selector}", h.finish)
	open("POST /lifecycle/ignition/{selector}", h.reportIgnition)
	open("GET /lifecycle/rolling/{selector}", h.strategy)
	open("POST /v1/pre-reboot", h.preReboot)
	open("POST /v1/steady-state", h.steadyState)
	open("POST /api/v1/report", h.report)

	add(server.API, server.Anybody, "GET /api/v1/order/{uuid}", h.ordered)
	add(server.API, server.Anybody, "POST /api/v1/install/{uuid}", h.install)
	add(server.API, server.Anybody, "POST /api/v1/install/{uuid}/progress", h.progressed)
	add(server.API, server.Anybody, "POST /api/v1/install/{uuid}/finish", h.installed)

	read("GET /discovery", h.discoveries)
	read("GET /discovery/interfaces", h.interfaces)
	read("GET /discovery/ignition-journal", h.journals)
	read("GET /discovery/ignition-journal/{uuid}", h.journal)
	read("GET /discovery/ignition-journal/{uuid}/{boot}", h.journal)
	read("GET /scheduler", h.schedules)
	read("GET /scheduler/{roles}", h.scheduled)
	read("GET /scheduler/available", h.available)
	read("GET /scheduler/ip-list/{role}", h.addresses)
	read("GET /lifecycle/coreos-install", h.installs)
	read("GET /lifecycle/ignition", h.reports)
	read("GET /lifecycle/rolling", h.strategies)
	read("GET /ui/view/machine", h.view)
	read("GET /configs", h.configs)
	operate("POST /scheduler", h.setRoles)
	operate("POST /lifecycle/rolling/{selector}", h.setStrategy)
	operate("DELETE /lifecycle/rolling/{selector}", h.dropStrategy)
	admin("GET /api/v1/lock-tokens", h.lockTokens)
	admin("POST /api/v1/lock-tokens", h.newLockToken)
	admin("DELETE /api/v1/lock-tokens/{id}", h.dropLockToken)
	admin("POST /backup/db", h.backup)
	admin("POST /shutdown", h.shutdown)

	read("GET /api/v1/machines", h.list)
	read("GET /api/v1/machines/{machine}", h.show)
	read("GET /api/v1/machines/{machine}/journal", h.showJournal)
	read("GET /api/v1/systems", h.systems)
	read("GET /api/v1/locks", h.locks)
	operate("POST /api/v1/machines/{machine}/{verb}", h.act)
	operate("POST /api/v1/machines/{machine}/power", h.power)
	operate("POST /api/v1/machines/{machine}/order", h.order)
	operate("POST /api/v1/schedule", h.schedule)
	operate("DELETE /api/v1/locks", h.unlock)
	operate("DELETE /api/v1/machines/{machine}", h.forget)
	return all
}

// statusError is an error that has a status of its own.
type statusError struct {
	error
	status int
}

// Unwrap returns the error.
func (e statusError) Unwrap() error { return e.error }

// as gives an error of what was sent the status that the older system had for it. Another error passes.
func as(status int, err error) error {
	if fail.KindOf(err) == fail.Invalid {
		return statusError{err, status}
	}
	return err
}

// answer has errors become problem documents.
func (h routes) answer(do handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := do(w, r)
		if err == nil {
			return
		}
		p := problem.Of(err)
		var own statusError
		var large *http.MaxBytesError
		if errors.As(err, &own) && !errors.As(err, &large) {
			p.Status = own.status
		}
		if p.Status >= http.StatusInternalServerError {
			h.Log.Error("a request about machines failed", "path", r.Pattern, "error", err.Error())
		}
		p.Write(w)
	})
}

// write answers with JSON.
func write(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the answer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(data, '\n')) // whoever asked has gone away
	return nil
}

// say answers with a line of text.
func say(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // as above
	return nil
}

// body reads a request's body; the server bounds it.
func body(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the request's body")
	}
	return data, nil
}

// decode reads a request's body as JSON with no other keys than those of v.
func decode(r *http.Request, v any) error {
	data, err := body(r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the request's body")
	}
	return nil
}

// machine returns the machine that a selector names, where whoever asks may act for it: with its key, or, as long as no key of it was
// approved, without.
func (h routes) machine(r *http.Request, selector string) (*registry.Machine, error) {
	s, err := facts.ParseSelector(selector)
	if err != nil {
		return nil, as(http.StatusUnprocessableEntity, err)
	}
	m, err := h.Registry.Selected(r.Context(), s)
	if err != nil {
		return nil, err
	}
	return m, h.mayActFor(r, m)
}

// mayActFor refuses whoever has not the key that a machine has: fail.Unauthorized.
func (h routes) mayActFor(r *http.Request, m *registry.Machine) error {
	if m.Record.Key == "" {
		return nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return fail.New(fail.Unauthorized, "the machine has a key, and this request does not come with its certificate").At(m.UUID).
			Do("ask over HTTPS, with the certificate that the machine got when it was approved")
	}
	return h.Registry.Knows(m, r.TLS.PeerCertificates[0].PublicKey)
}

// who names whoever asks.
func (h routes) who(r *http.Request) string {
	if h.Who != nil {
		if w := h.Who(r); w != "" {
			return w
		}
	}
	return "an operator"
}
