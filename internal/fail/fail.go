// Package fail gives errors a kind, a place and a remedy.
//
// A few kinds map to documented exit codes. "Not ready" and "unreachable" may be waited for; nothing else is retried.
// The package knows nothing of Kubernetes, machines or clouds.
package fail

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind is the kind of a failure; it decides the exit code and whether waiting can help.
type Kind int

// The kinds of failure. Internal is the zero value: an unclassified error.
const (
	Internal     Kind = iota // a defect or an unclassified error
	Invalid                  // the input (document, flag, argument) is wrong, or a file that it names is missing or can't be read
	Refused                  // understood, but not done: consent missing, quorum at risk, host can't serve
	NotReady                 // not yet; waiting may help
	Conflict                 // another process holds the resource, or the resource changed meanwhile
	Unreachable              // no answer from a machine or service; waiting may help
	Unauthorized             // credentials or host keys are not accepted
	Interrupted              // stopped by the user
	NotFound                 // the named thing does not exist
)

var names = map[Kind]string{
	Internal: "internal error", Invalid: "invalid input", Refused: "refused", NotReady: "not ready", Conflict: "conflict",
	Unreachable: "unreachable", Unauthorized: "unauthorized", Interrupted: "interrupted", NotFound: "not found",
}

// String returns the kind's name as users see it.
func (k Kind) String() string { return names[k] }

// Named returns the kind with the given name, as String returns it; Internal if the name is unknown.
func Named(name string) Kind {
	for k, n := range names {
		if n == name {
			return k
		}
	}
	return Internal
}

// ExitCode returns the documented exit status of the command for this kind (docs/reference/exit-codes.md).
// 2 is left to `naupegos plan`, which uses it for "there are changes".
func (k Kind) ExitCode() int {
	switch k {
	case Invalid:
		return 3
	case Refused:
		return 4
	case NotReady:
		return 5
	case Conflict:
		return 6
	case Unreachable:
		return 7
	case Unauthorized:
		return 8
	case NotFound:
		return 9
	case Interrupted:
		return 130
	default:
		return 1
	}
}

// ExitDrifted is the exit status of `naupegos status` for a cluster that serves and differs from its document.
const ExitDrifted = 10

// Error is a failure for people: what was attempted, where, why, and what to do about it.
type Error struct {
	Kind    Kind
	What    string // what was attempted, e.g. "start containerd"
	Where   string // the machine, file or resource; may be empty
	Err     error  // the cause; may be nil
	Hint    string // what the user can do, one sentence; may be empty
	Final   bool   // waiting has reached its limit: an immediate retry is pointless, for every kind
	Settled bool   // Kind holds, whatever kinds the errors around this one have
	Rest    string // names what only a user who may see all clusters may see, such as others' machines; Error omits it, Whole adds it
}

// Error renders "where: what: cause (hint)".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.Where, e.What} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	s := strings.Join(parts, ": ")
	if hint := " (" + e.Hint + ")"; e.Hint != "" && !strings.Contains(s, hint) { // a wrapped error may give the same advice
		s += hint
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of a kind.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, What: fmt.Sprintf(format, args...)}
}

// Wrap gives err a kind and says what was attempted. Wrapping nil is a defect of the caller, but returns a usable error.
func Wrap(k Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: k, What: fmt.Sprintf(format, args...), Err: err}
}

// At names the machine, file or resource and returns e.
func (e *Error) At(where string) *Error { e.Where = where; return e }

// Do sets what the user can do about the error, and returns e.
func (e *Error) Do(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Confide adds the text that only Whole shows, and returns e.
func (e *Error) Confide(format string, args ...any) *Error {
	e.Rest = fmt.Sprintf(format, args...)
	return e
}

// Enough marks the error as Final and returns e.
func (e *Error) Enough() *Error { e.Final = true; return e }

// Settle marks the error as Settled and Final, and returns e.
func (e *Error) Settle() *Error { e.Settled, e.Final = true, true; return e }

// KindOf returns the kind of a settled error in err's chain, else that of the outermost *Error there that has one. A cancelled context counts as
// Interrupted, an exceeded deadline as NotReady.
func KindOf(err error) Kind {
	var e *Error
	for cur := err; errors.As(cur, &e); cur = e.Err {
		if e.Settled {
			return e.Kind
		}
	}
	for cur := err; errors.As(cur, &e); cur = e.Err {
		if e.Kind != Internal {
			return e.Kind
		}
		if e.Err == nil {
			break
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return NotReady
	}
	return Internal
}

// Waitable reports whether a retry can help: the kind allows it, and no error in the chain is Final.
func Waitable(err error) bool {
	var e *Error
	for cur := err; errors.As(cur, &e); cur = e.Err {
		if e.Final {
			return false
		}
		if e.Err == nil {
			break
		}
	}
	k := KindOf(err)
	return k == NotReady || k == Unreachable
}
