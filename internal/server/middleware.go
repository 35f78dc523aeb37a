package server

import (
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// everything wraps all requests of a listener: it trusts proxies' headers, sets its own, recovers from panics, and logs and observes answers. It does not
// log queries, which may hold private data.
func (s *Server) everything(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		st := Watch(w)
		st.last = r.ProtoMajor == 1 && len(r.TransferEncoding) > 0
		s.forwarded(r)
		defer func() {
			if why := recover(); why != nil && why != http.ErrAbortHandler { //nolint:errorlint // the very value
				s.c.Log.Error("a handler panicked", "path", words.Clip(r.URL.Path, peer.Long), "why", why, "stack", string(debug.Stack()))
				if st.code == 0 {
					problem.Write(st, fail.New(fail.Internal, "this is a defect of the server; its log has details"))
				}
			}
			st.close() // for handlers that write nothing
			if s.c.Observe != nil {
				s.c.Observe(r, st.code, time.Since(began))
			}
			s.c.Log.Debug("request", "method", words.Clip(r.Method, 20), "path", words.Clip(r.URL.Path, peer.Long), "status", st.code, "from", Remote(r), "took", time.Since(began).Round(time.Microsecond).String())
		}()
		secure(w.Header(), r.TLS != nil)
		next.ServeHTTP(st, r)
	})
}

// secure sets headers that restrict what browsers do with an answer. A page may widen its own policy.
func secure(h http.Header, encrypted bool) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if encrypted {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// Remote returns the client address of a request, without its port.
func Remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Status is an http.ResponseWriter that records the status code.
type Status struct {
	http.ResponseWriter
	code int
	// last closes the connection after the answer. A request with Transfer-Encoding may have had a Content-Length, too, which net/http drops: a proxy in
	// front may have believed that, and takes the rest of the body for another client's request (RFC 9112, 6.1).
	last bool
}

// Watch returns a Status that writes to w.
func Watch(w http.ResponseWriter) *Status { return &Status{ResponseWriter: w} }

// Code returns the status code; 0: no answer yet.
func (s *Status) Code() int { return s.code }

// close tells the client that the connection closes, unless an answer has begun.
func (s *Status) close() {
	if s.last && s.code == 0 {
		s.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (s *Status) WriteHeader(code int) {
	s.close()
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (s *Status) Write(b []byte) (int, error) {
	s.close()
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s *Status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
