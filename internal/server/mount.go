package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// Listener says which listener serves a mount.
type Listener int

// The listeners. Each also serves the mounts of Boot. A mount that needs a secret must not be on Boot, except where that
// listens on loopback alone.
const (
	API   Listener = iota // HTTPS
	Boot                  // plain HTTP, as iPXE needs it: the front process forwards it
	Front                 // only the socket of the front process
)

// Role is a level of an operator's rights. With the zero value the handler authenticates the client itself, for example by a machine's certificate.
type Role string

// The roles, lowest first.
const (
	Anybody Role = ""
	Read    Role = "read"
	Operate Role = "operate"
	Admin   Role = "admin"
)

// Mount is one handler of the server.
type Mount struct {
	Pattern string // in the syntax of http.ServeMux: "GET /boot.ipxe"
	Handler http.Handler
	On      Listener
	Need    Role          // role that the operator needs; see Guard
	Scope   Scope         // which cluster or machine the route concerns
	Pages   bool          // authenticated by a session cookie: the handler checks Need and Scope itself, with the guard's check
	MaxBody int64         // limit of a request's body in bytes; 0: 1 MiB
	Timeout time.Duration // for the whole answer, by the request's context; 0: a minute
	Stream  bool          // no Timeout: an answer lasts as long as its reader keeps up
}

// Guard passes a request to a mount's handler if the operator has the mount's role in its scope, and answers it otherwise. A nil Guard refuses all.
type Guard func(m Mount, next http.Handler) http.Handler

// The default bounds of a mount.
const (
	maxBody   = 1 << 20
	answering = time.Minute
)

// handler returns the handler of a listener.
func (s *Server) handler(on Listener) (http.Handler, error) {
	mux := http.NewServeMux()
	var health http.Handler = http.HandlerFunc(s.health)
	if s.c.Healthz != nil {
		health = s.c.Healthz
	}
	mux.Handle("GET /healthz", s.bounded(Mount{Handler: health, Scope: Public()}))
	for _, p := range s.c.Parts {
		for _, m := range p.Mounts {
			if !m.On.isOn(on) {
				continue
			}
			if err := m.check(); err != nil {
				return nil, err
			}
			if err := add(mux, m.Pattern, s.bounded(m)); err != nil {
				return nil, err
			}
		}
	}
	return s.everything(Missing(mux)), nil
}

// isOn reports whether the listener at serves a mount on m.
func (m Listener) isOn(at Listener) bool {
	switch m {
	case Boot:
		return true
	case Front:
		return at == Front
	default:
		return at == API
	}
}

// add mounts a handler. A pattern that http.ServeMux refuses is a defect.
func add(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fail.New(fail.Internal, "mount %s: %v", pattern, why)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// bounded wraps a mount's handler with its bounds.
func (s *Server) bounded(m Mount) http.Handler {
	if m.MaxBody == 0 {
		m.MaxBody = maxBody
	}
	if m.Timeout == 0 {
		m.Timeout = answering
	}
	h := m.Handler
	if m.Stream {
		h = streamed(h)
	}
	if m.Need != Anybody && !m.Pages {
		h = s.guarded(m, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, left := entering(w, r, m.Need == Anybody || m.Pages)
		defer left()
		if m.Pages {
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, left))
		}
		r.Body = http.MaxBytesReader(w, r.Body, m.MaxBody)
		if m.Stream {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), m.Timeout)
		defer cancel()
		// The margin lets the handler's own timeout answer through.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(m.Timeout + 5*time.Second)) // only test writers don't support deadlines
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// guarded passes requests on if the guard admits them. Nothing keeps the answers. It answers others before reading their body, and closes the connection, because net/http
// would wait for the body otherwise.
func (s *Server) guarded(m Mount, next http.Handler) http.Handler {
	guard := s.c.Guard
	if guard == nil {
		guard = func(Mount, http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				problem.Write(w, fail.New(fail.Unauthorized, "this server has no operators"))
			})
		}
	}
	h := guard(m, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del("Connection")
		next.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // for operators only
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// streamed reads the whole body first; after that, only the writes of the answer have deadlines.
func streamed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if whole(w, r) {
			next.ServeHTTP(&patient{ResponseWriter: w, control: http.NewResponseController(w)}, r)
		}
	})
}

// whole reads a request's body within the usual read deadline, then removes that deadline, so that only the writes of the answer have deadlines.
// It reports whether it read the whole body.
func whole(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		kind := fail.Invalid
		if fail.KindOf(err) == fail.NotReady { // the guard's limit
			kind = fail.NotReady
		}
		problem.Write(w, fail.Wrap(kind, err, "read the request's body"))
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // only test writers don't support deadlines
	return true
}

// patient gives each write its own deadline, so that a long answer lasts as long as its reader keeps up.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// writing is the time limit of one write of a streamed answer.
const writing = 30 * time.Second

// Write implements http.ResponseWriter.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writing)) // only test writers don't support deadlines
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Missing passes requests on to mux. Requests that match no pattern get a problem document with status 404 or 405; browsers get a page, except of the API.
func Missing(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		seen := Watch(discard{http.Header{}})
		h.ServeHTTP(seen, r)
		p := problem.OfRequest(http.StatusNotFound, "there is nothing at "+r.URL.Path)
		if seen.code == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", seen.Header().Get("Allow"))
			p = problem.OfRequest(http.StatusMethodNotAllowed, r.URL.Path+" can't be asked by "+r.Method)
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			p.Write(w)
			return
		}
		p.Answer(w, r)
	})
}

// discard is an http.ResponseWriter that discards the answer.
type discard struct{ header http.Header }

// Header implements http.ResponseWriter.
func (d discard) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (discard) WriteHeader(int) {}
