package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// outputSchema is the version of the output of -o json and -o yaml; new fields do not change it.
const outputSchema = 1

// versioned renders v as JSON with the schema's version as its first field. Lists become the field items of an object.
func versioned(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = inert(b)
	head := fmt.Appendf(nil, `{"schemaVersion":%d,`, outputSchema)
	switch {
	case bytes.Equal(b, []byte("{}")):
		return append(bytes.TrimSuffix(head, []byte(",")), '}'), nil
	case b[0] == '{':
		return append(head, b[1:]...), nil
	}
	return append(append(append(head, `"items":`...), b...), '}'), nil
}

// writeJSON prints v as indented JSON.
func writeJSON(w io.Writer, v any) error {
	b, err := versioned(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

// WriteLine prints v as one line of JSON.
func WriteLine(w io.Writer, v any) error {
	b, err := versioned(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// failure is an error as JSON, on standard error.
type failure struct {
	Error    string          `json:"error"`              // the text that people see
	Kind     string          `json:"kind"`               // see docs/reference/exit-codes.md
	Code     int             `json:"exitCode"`           //
	Where    string          `json:"where,omitempty"`    // the machine, file or resource
	Hint     string          `json:"hint,omitempty"`     // what to do
	Problems v1alpha1.Errors `json:"problems,omitempty"` // all mistakes in a document
}

// WriteError prints an error as JSON.
func WriteError(w io.Writer, err error) error { return writeJSON(w, failureOf(err)) }

// WriteErrorEvent prints an error as the last line of a run's progress in JSON.
func WriteErrorEvent(w io.Writer, err error, at time.Time) error {
	line, e := json.Marshal(struct {
		Event string    `json:"event"`
		Time  time.Time `json:"time"`
		failure
	}{"error", at, failureOf(err)})
	if e == nil {
		_, e = w.Write(append(inert(line), '\n'))
	}
	return e
}

func failureOf(err error) failure {
	kind := fail.KindOf(err)
	f := failure{Error: err.Error(), Kind: kind.String(), Code: kind.ExitCode()}
	if errors.As(err, &f.Problems) {
		return f
	}
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		f.Problems = v1alpha1.Errors(refused)
		return f
	}
	var e *fail.Error
	if errors.As(err, &e) {
		f.Where, f.Hint = e.Where, e.Hint
	}
	return f
}
