package strict

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// FieldError is one problem in a document.
type FieldError struct {
	File    string `json:"file,omitempty"`   // as given to Parse; empty if the document has no file
	Line    int    `json:"line,omitempty"`   // 1-based; 0: unknown
	Column  int    `json:"column,omitempty"` // 1-based, in characters; 0: unknown
	Field   string `json:"field,omitempty"`  // "spec.workers[0].name"; empty: the document as a whole
	Problem string `json:"problem"`          // what is wrong; never contains a secret
	Hint    string `json:"hint,omitempty"`   // what to do; may be empty
}

// Error returns "file:line:column: field: problem (hint)".
func (e FieldError) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	case e.File != "":
		b.WriteString(e.File + ": ")
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Errors lists all problems in a document, in the document's order. As an error it is of kind fail.Invalid; errors.As returns it. An empty Errors is
// not an error: return it as an error only if len > 0.
type Errors []FieldError

// Error returns one problem per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns an error of kind fail.Invalid.
func (e Errors) Unwrap() error {
	return fail.New(fail.Invalid, "%d problems in the document", len(e))
}

// maxFindings limits the length of a report: a document that is wrong throughout needs no longer list.
const maxFindings = 100

// Position is a place in the document.
type Position struct{ Line, Column int }

// Findings collects the problems in a document. A field is not reported if it, a field around it or a field in it is reported already: consequences
// of one mistake count as one finding.
type Findings struct {
	File  string              // for messages; may be empty
	Where map[string]Position // of every field in the document
	list  Errors
	wrong []string // fields that are reported, or were meant by a misspelt key
	more  bool     // there are findings beyond maxFindings
}

// New returns empty Findings for a file of this name.
func New(file string) *Findings { return &Findings{File: file, Where: map[string]Position{}} }

// Add reports a field at its own position, or at that of the nearest enclosing field in the document. It does nothing if field, or one of the fields
// that the finding also depends on, is reported already.
func (r *Findings) Add(field, problem, hint string, dependsOn ...string) {
	for _, f := range append(dependsOn, field) {
		if r.IsWrong(f) {
			return
		}
	}
	r.AddAt(r.Place(field), field, problem, hint)
}

// Choices reports each text of a list that is unknown or listed twice. what names one such text, such as "a policy".
func (r *Findings) Choices(field, what string, list, known []string) {
	for i, s := range list {
		switch {
		case !slices.Contains(known, s):
			r.Add(Item(field, i), Quote(s)+" is not "+what, "use "+strings.Join(known, ", "))
		case slices.Contains(list[:i], s):
			r.Add(Item(field, i), s+" is already listed", "keep one of them")
		}
	}
}

// AddAt reports a field at a given position, even if it is reported already.
func (r *Findings) AddAt(p Position, field, problem, hint string) {
	if field != "" {
		r.wrong = append(r.wrong, field)
	}
	if len(r.list) >= maxFindings {
		r.more = true
		return
	}
	r.list = append(r.list, FieldError{File: r.File, Line: p.Line, Column: p.Column, Field: field, Problem: problem, Hint: hint})
}

// Remark reports a field, even if it is reported already, and still lets fields in it be reported.
func (r *Findings) Remark(field, problem, hint string) {
	before := len(r.wrong)
	r.AddAt(r.Place(field), field, problem, hint)
	r.wrong = r.wrong[:before]
}

// full reports whether no further finding would be shown, so that looking for more is useless.
func (r *Findings) full() bool { return r.more }

// IsWrong reports whether field, a field in it or a field around it is reported already.
func (r *Findings) IsWrong(field string) bool {
	for _, w := range r.wrong {
		if w == field || inside(w, field) || inside(field, w) {
			return true
		}
	}
	return false
}

// inside reports whether field a lies in field b.
func inside(a, b string) bool {
	return len(a) > len(b) && strings.HasPrefix(a, b) && (a[len(b)] == '.' || a[len(b)] == '[')
}

// Place returns the position of a field, or of the nearest enclosing field.
func (r *Findings) Place(field string) Position {
	for field != "" {
		if p, ok := r.Where[field]; ok {
			return p
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return r.Where[""]
}

// Sorted returns the findings in the document's order.
func (r *Findings) Sorted() Errors {
	sort.SliceStable(r.list, func(i, j int) bool {
		a, b := r.list[i], r.list[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	if r.more {
		return append(r.list, FieldError{File: r.File, Problem: "and more", Hint: "mend these first"})
	}
	return r.list
}
