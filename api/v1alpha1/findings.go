package v1alpha1

import (
	"fmt"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// FieldError is one thing that is wrong with a document.
type FieldError struct {
	File    string `json:"file,omitempty"`   // as given to Parse; empty where the document has no file
	Line    int    `json:"line,omitempty"`   // 1-based; 0: not known
	Column  int    `json:"column,omitempty"` // 1-based, in characters; 0: not known
	Field   string `json:"field,omitempty"`  // "spec.workers[0].name"; empty: the document as a whole
	Problem string `json:"problem"`          // what is wrong, never with a secret in it
	Hint    string `json:"hint,omitempty"`   // what to do; may be empty
}

// Error renders "file:line:column: field: problem (hint)".
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

// Errors is everything that is wrong with a document, in the document's order. As an error it is of kind fail.Invalid;
// get it back with errors.As. An empty Errors is not an error: return it as error only where len > 0.
type Errors []FieldError

// Error renders one problem a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the kind.
func (e Errors) Unwrap() error {
	return fail.New(fail.Invalid, "%d problems in the cluster document", len(e))
}

// maxFindings bounds what one report holds: a document that is wrong throughout needs no longer list.
const maxFindings = 100

// position is a place in the document.
type position struct{ line, column int }

// findings collects what is wrong with a document. A field that is already reported, or lies in or around one that is,
// is not reported again: what follows from one mistake is one finding.
type findings struct {
	file  string
	where map[string]position // of every field that the document has
	list  Errors
	wrong []string // fields that are reported, or meant by a misspelt key
	more  bool     // there are findings beyond maxFindings
}

// add reports a field at its own place, or at that of the nearest field around it that the document has.
// It stays silent where field, or one of those the finding also depends on, is reported already.
func (r *findings) add(field, problem, hint string, dependsOn ...string) {
	for _, f := range append(dependsOn, field) {
		if r.isWrong(f) {
			return
		}
	}
	r.addAt(r.place(field), field, problem, hint)
}

// addAt reports a field at a known place, whatever is reported already.
func (r *findings) addAt(p position, field, problem, hint string) {
	if field != "" {
		r.wrong = append(r.wrong, field)
	}
	if len(r.list) >= maxFindings {
		r.more = true
		return
	}
	r.list = append(r.list, FieldError{File: r.file, Line: p.line, Column: p.column, Field: field, Problem: problem, Hint: hint})
}

// remark reports a field, whatever is reported already, and lets what lies in it be reported, too.
func (r *findings) remark(field, problem, hint string) {
	before := len(r.wrong)
	r.addAt(r.place(field), field, problem, hint)
	r.wrong = r.wrong[:before]
}

// full tells that looking further is of no use: nothing more would be shown.
func (r *findings) full() bool { return r.more }

// isWrong reports whether field, something in it or something around it is reported already.
func (r *findings) isWrong(field string) bool {
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

// place finds the line of a field, or of the nearest one around it.
func (r *findings) place(field string) position {
	for field != "" {
		if p, ok := r.where[field]; ok {
			return p
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return r.where[""]
}

// sorted returns the findings in the document's order.
func (r *findings) sorted() Errors {
	sort.SliceStable(r.list, func(i, j int) bool {
		a, b := r.list[i], r.list[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	if r.more {
		return append(r.list, FieldError{File: r.file, Problem: "and more", Hint: "mend these first"})
	}
	return r.list
}

// Nearest returns the known word that s is most probably a misspelling of, or "".
func Nearest(s string, known []string) string {
	best, bestDistance := "", len(s)/3+1
	if len(s) > 64 {
		return ""
	}
	for _, k := range known {
		if d := distance(strings.ToLower(s), strings.ToLower(k)); d <= bestDistance && d < len(k) && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the single letters that must be added, removed, changed or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
