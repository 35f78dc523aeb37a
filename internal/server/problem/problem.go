// Package problem converts errors to problem documents (RFC 9457) and back. The server answers failed requests with such documents, and its clients
// turn them into errors.
//
// The kinds of internal/fail determine the status. The package does not depend on the requests.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Problem is a problem document. Fields may be added, never renamed or given another meaning.
type Problem struct {
	Type   string `json:"type"`   // "about:blank": status and kind suffice
	Title  string `json:"title"`  // the kind, for people
	Status int    `json:"status"` // the same as the response's
	Detail string `json:"detail"` // what was attempted, where, why it failed, and what to do about it
	// Errors are the single mistakes in the request.
	Errors []Mistake `json:"errors,omitempty"`
	Kind   string    `json:"kind"` // as in the command's exit codes: "not ready", "conflict", …
}

// Mistake is a single mistake in a request. It does not repeat what the request says there, which may be secret.
type Mistake struct {
	Message  string `json:"message"`
	Location string `json:"location"`
}

// The bounds of the mistakes in a document.
const (
	mostMistakes = 20
	mostText     = 300 // bytes of each text
)

// OfRequest returns the document of a request that was refused before it was understood. It tells the first mistakes, in detail as well.
func OfRequest(status int, detail string, mistakes ...Mistake) *Problem {
	kind := kindOf(status)
	p := &Problem{Type: "about:blank", Title: kind.String(), Status: status, Detail: clip(detail), Kind: kind.String()}
	for _, m := range mistakes[:min(len(mistakes), mostMistakes)] {
		m = Mistake{clip(m.Message), clip(m.Location)}
		p.Errors = append(p.Errors, m)
		p.Detail += "; " + strings.TrimPrefix(m.Location+": ", ": ") + m.Message
	}
	if n := len(mistakes) - mostMistakes; n > 0 {
		p.Detail += fmt.Sprintf("; and %d more", n)
	}
	return p
}

// clip shortens a text that a client may have made.
func clip(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "…"
}

// statuses maps kinds to statuses. The default is 500.
var statuses = map[fail.Kind]int{
	fail.Invalid: http.StatusBadRequest, fail.Refused: http.StatusForbidden, fail.NotReady: http.StatusServiceUnavailable,
	fail.Conflict: http.StatusConflict, fail.Unreachable: http.StatusBadGateway, fail.Unauthorized: http.StatusUnauthorized,
	fail.Interrupted: http.StatusServiceUnavailable, fail.NotFound: http.StatusNotFound,
}

// Of returns the document of an error. It contains the error's whole text, because errors contain no secrets.
func Of(err error) *Problem {
	kind := fail.KindOf(err)
	status, ok := statuses[kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	p := &Problem{Type: "about:blank", Title: kind.String(), Status: status, Detail: err.Error(), Kind: kind.String()}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		p.Status, p.Title, p.Kind = http.StatusRequestEntityTooLarge, fail.Invalid.String(), fail.Invalid.String()
		p.Detail = fmt.Sprintf("the request's body has more than %d bytes", large.Limit)
	}
	return p
}

// Write answers a request with the document of an error.
func Write(w http.ResponseWriter, err error) { Of(err).Write(w) }

// Write answers a request with the document.
func (p *Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="naupegos"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the client has left
}

// Answer answers a request with the document: as a page to a browser that opens an address, and as JSON to everything else.
func (p *Problem) Answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		p.Write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	const page = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>%[1]s · Naupegos</title><h1>%[1]s</h1><p>%[2]s</p></html>`
	_, _ = fmt.Fprintf(w, page, html.EscapeString(p.Title), html.EscapeString(p.Detail)) // an error means that the client has left
}

// Err returns the document's error, with its kind.
func (p *Problem) Err() error { return fail.New(fail.Named(p.Kind), "%s", p.Detail) }

// Error returns the detail. Together with GetStatus and ContentType it makes the document an error for huma.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the document's media type.
func (p *Problem) ContentType(string) string { return ContentType }

// Read returns the error in a response, or nil after success. It reads at most the maximum size of a problem document.
func Read(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "read the server's answer")
	}
	var p Problem
	if err := json.Unmarshal(data, &p); err != nil || p.Detail == "" {
		return (&Problem{Kind: kindOf(res.StatusCode).String(), Detail: "the server answered " + res.Status}).Err()
	}
	if p.Kind == "" { // a document of another program
		p.Kind = kindOf(res.StatusCode).String()
		for _, e := range p.Errors {
			p.Detail += "; " + e.Location + ": " + e.Message
		}
	}
	return p.Err()
}

// kindOf returns the kind for a status without a document, for example from a proxy.
func kindOf(status int) fail.Kind {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return fail.NotReady
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return fail.Unreachable
	case http.StatusUnauthorized:
		return fail.Unauthorized
	case http.StatusForbidden:
		return fail.Refused
	case http.StatusNotFound:
		return fail.NotFound
	case http.StatusConflict:
		return fail.Conflict
	}
	if status >= 400 && status < 500 {
		return fail.Invalid
	}
	return fail.Internal
}
