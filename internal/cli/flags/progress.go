package flags

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// Progress is the value of --progress; empty, it depends on the terminal.
type Progress string

// JSON reports whether progress is shown as JSON lines, which no other text may interrupt.
func (p *Progress) JSON() bool { return *p == Progress(show.ObserveJSON) }

// String returns the name.
func (p *Progress) String() string { return string(*p) }

// Type returns the value's type for the help.
func (p *Progress) Type() string { return "string" }

// Set takes one of the observers' names.
func (p *Progress) Set(name string) error {
	if known := ProgressNames(); !slices.Contains(known, name) {
		return fail.New(fail.Invalid, "there is no %q; choose %s", name, strings.Join(known, ", "))
	}
	*p = Progress(name)
	return nil
}

// ProgressNames lists the values of --progress.
func ProgressNames() []string {
	return []string{string(show.ObserveTTY), string(show.ObservePlain), string(show.ObserveJSON), string(show.ObserveNone)}
}
