package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// Listener says where something is mounted.
type Listener int

// The listeners. What is mounted on Boot is there on HTTPS, too; nothing that needs a secret belongs there.
const (
	API   Listener = iota // HTTPS
	Boot                  // plain HTTP, as iPXE needs it: the front process forwards it
	Front                 // the socket of the front process, and nowhere else
)

// Role is what an operator may do. The zero value is nobody's: the handler itself finds out who asks, as by a machine's certificate.
type Role string

// The roles, the least first.
const (
	Anybody Role = ""
	Read    Role = "read"
	Operate Role = "operate"
	Admin   Role = "admin"
)

// Mount is one handler of the server.
type Mount struct {
	Pattern string // as http.ServeMux has it: "GET /boot.ipxe"
	Handler http.Handler
	On      Listener
	Need    Role          // of the operator who asks; see Guard
	Scope   Scope         // which cluster or machine the route concerns
	Pages   bool          // authenticated by a session cookie: the handler checks Need and Scope itself, with the guard's check
	MaxBody int64         // most bytes of a request's body; 0: 1 MiB
	Timeout time.Duration // for the whole answer, by the request's context; 0: a minute
	Stream  bool          // no Timeout: an answer goes on for as long as its reader takes it
}

// Guard passes a request to a mount's handler if the operator has the mount's role in its scope, and answers it otherwise. A nil Guard refuses all.
type Guard func(m Mount, next http.Handler) http.Handler

// Bounds of a mount that names none.
const (
	maxBody   = 1 << 20
	answering = time.Minute
)

// handler is everything that a listener serves.
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
	return s.everything(notFound(mux)), nil
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

// bounded has a mount's bounds around its handler.
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
		defer entering(r, m.Need == Anybody)()
		r.Body = http.MaxBytesReader(w, r.Body, m.MaxBody)
		if m.Stream {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), m.Timeout)
		defer cancel()
		// The handler's own answer about its time has to get through.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(m.Timeout + 5*time.Second)) // what can't have one is a test's
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// guarded passes requests on if the guard admits them. Others are answered before their body is read, and the connection is closed, because net/http
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
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// streamed reads the body first: after that only the answer's writes are timed.
func streamed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if whole(w, r) {
			next.ServeHTTP(&patient{ResponseWriter: w, control: http.NewResponseController(w)}, r)
		}
	})
}

// whole reads a request's body, within the time that a request has; after that only the answer's writes are timed. It reports whether it was
// read.
func whole(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		problem.Write(w, fail.Wrap(fail.Invalid, err, "read the request's body"))
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // what can't have one is a test's
	return true
}

// patient has a reader keep up: each write has its own time.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// writing is how long one write of a streamed answer may take.
const writing = 30 * time.Second

// Write implements http.ResponseWriter.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writing)) // what can't have one is a test's
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// notFound answers what is mounted nowhere by problem documents.
func notFound(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		seen := Watch(discard{http.Header{}})
		h.ServeHTTP(seen, r)
		p := problem.Of(fail.New(fail.NotFound, "there is nothing at %s", r.URL.Path))
		if seen.code == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", seen.Header().Get("Allow"))
			p = problem.Of(fail.New(fail.Invalid, "%s can't be asked by %s", r.URL.Path, r.Method))
			p.Status = http.StatusMethodNotAllowed
		}
		p.Write(w)
	})
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

// Header implements http.ResponseWriter.
func (d discard) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (discard) WriteHeader(int) {}
