// Package routes is the HTTP interface of the registry of machines: the routes for machines that boot, are installed and run, the older system's
// routes with the same selectors and bodies, and the API for operators' clients.
//
// Handlers only translate. One table (Mounts) has the listener and the role of each route.
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

// Options are the dependencies of the routes in addition to the registry. A route with a nil dependency answers that it is not available.
type Options struct {
	Registry *registry.Registry
	// Ignition returns a machine's Ignition config for installation, for the machine's own query.
	Ignition func(ctx context.Context, query string) ([]byte, error)
	// Backup writes a copy of the store, and returns its description.
	Backup func(ctx context.Context) (any, error)
	// Systems lists the system images for installation; nil: none.
	Systems func() ([]order.System, error)
	// Shutdown stops the server.
	Shutdown func()
	// Settings are the server's settings, without secrets.
	Settings map[string]any
	// Who returns the operator's name for records; nil: none.
	Who func(r *http.Request) string
	Log *slog.Logger // nil: no log
}

// routes are the handlers.
type routes struct {
	Options
	strangers *peer.Log
}

// answering is the time limit of an answer: switching a machine takes long.
const answering = 5 * time.Minute

// handler is a handler that may fail.
type handler func(w http.ResponseWriter, r *http.Request) error

// Mounts lists all routes: what each answers, where, and to whom.
//
// Booting machines have no key yet, or software without support for one: the routes on Boot are open to anybody on the provisioning network, and
// reveal no secrets. If a route acts for one machine with an approved key, it requires that key; see machine.
func Mounts(o Options) []server.Mount {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := routes{o, peer.NewLog(o.Log)}
	var all []server.Mount
	add := func(on server.Listener, need server.Role, pattern string, do handler) {
		scope := server.Everything() // physical machines belong to no cluster
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

// statusError is an error with its own status.
type statusError struct {
	error
	status int
}

// Unwrap returns the error.
func (e statusError) Unwrap() error { return e.error }

// as gives an error about the request the older system's status. It returns other errors unchanged.
func as(status int, err error) error {
	if fail.KindOf(err) == fail.Invalid {
		return statusError{err, status}
	}
	return err
}

// answer turns a handler's errors into problem documents.
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
	_, _ = w.Write(append(data, '\n')) // an error means that the client has left
	return nil
}

// say answers with one line of text.
func say(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // as above
	return nil
}

// body reads a request's body, within the server's limit.
func body(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the request's body")
	}
	return data, nil
}

// decode parses a request's body as JSON, and refuses unknown keys.
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

// machine returns the machine that a selector names, if the client may act for it: with its key or, as long as it has no approved key, without
// one.
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

// mayActFor returns fail.Unauthorized unless the client has the machine's key.
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

// who returns the name of the operator.
func (h routes) who(r *http.Request) string {
	if h.Who != nil {
		if w := h.Who(r); w != "" {
			return w
		}
	}
	return "an operator"
}
