package v1alpha1

import (
	"sort"
	"strings"
)

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
