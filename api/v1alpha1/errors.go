package v1alpha1

import (
	"fmt"
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
